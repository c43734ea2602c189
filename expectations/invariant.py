"""What an invariant is: a sentence from a document, and a query that returns what breaks it.

A query names relations in braces; its evaluation says what they are. Before an epoch is committed (stage
``epoch``):

| relation | rows |
|---|---|
| ``{rows}`` | this epoch's result: key, value, timestamp, partition, offset, epoch, provenance |
| ``{earlier}`` | the join's own earlier rows that can still matter, same columns |
| ``{new_left}``, ``{new_right}`` | the input records that the epoch consumed |
| ``{left}``, ``{right}``, windows | records that the epoch could see: new (``is_new``) and open ones |
| ``{right}``, versioned table looked up | all its records so far, ``is_new`` too |
| ``{left}``, ``{right}``, other tables | the tables' live rows after the epoch, at least those that it reaches |
| ``{left_before}``, ``{right_before}`` | the same before the epoch |
| ``{before}`` | the folded result before the epoch |
| ``{placed}`` | key and partition of the folded result's rows, and of all that came since its last fold |
| ``{bounds}`` | partition, first_offset where this epoch's offsets must start; absent: 0 |
| ``{arrived}``, ``{reached}`` | what follows from the order of the records: ``expectations/rules/derived.py`` |
| ``{made_of}`` | of a join of two streams: ``{rows}`` with key and time of the records that each is made of |
| ``{times}`` | partition, stream_time before the epoch; absent: none yet |
| ``{unread}`` | side, partition, records that an input had when the epoch was planned, and that wait |

``{left:KEYS}`` has the rows of ``{left}`` whose key the subquery ``KEYS`` gives in its column ``key``: an engine reads
only what it must of a large table.

A rule that compares all rows of tables has the condition ``{touched:KEY}`` on its keys: of a large table, after a small
fold, it holds for the keys of ``{changelog}`` alone, else for all (``assets/quality/relations/folded.py``). Such a rule
names ``{left:touched}`` or ``{table:touched}``. ``{table:KEYS}`` has no ``key`` and may have further rows, so the rule
compares the keys itself.

On what is committed (stages ``commit`` and ``table``), in one of two scopes. ``epoch``: what the epochs since the last
fold touch. ``whole``: everything, when checks are run alone, at a table's first fold, and after a rebuild. Rules about
``{table}``, ``{sizes}``, ``{was}`` or ``{now}`` are judged when the table is folded, all others with the epoch's rows.

| relation | epoch | whole |
|---|---|---|
| ``{changelog}`` | the rows of these epochs | all rows |
| ``{table}`` | all rows of the folded table | all rows |
| ``{bounds}`` | where their offsets must start | nothing: at 0 |
| ``{sizes}`` | rows of the folded table ``before`` and ``after``, by the statistics of its log | the same, before: 0 |
| ``{was}`` | all rows of the table's version before | nothing |
| ``{now}`` | of the table, rows with a key of ``{changelog}`` | all rows |
| ``{left}``, ``{right}`` | the input tables' live rows | all live rows |
| ``{late}`` | what the epoch dropped, in the columns of ``joins/late.py``; checked: records that it read | the same |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from string import Formatter
from typing import Literal

from rivermeet.pipelines import Node
from rivermeet.pipelines.check import Severity

ANY = ("*",)
"""Every family, and sources."""
COMPUTED = ("computed",)
"""Every family, but no source."""
DOCUMENTED = ("3.1",)
"""The profile that does what the documents say; older and released ones deliberately break some of it."""
Stage = Literal["epoch", "commit", "table", "verify"]
Scope = Literal["epoch", "whole"]

Moment = Literal["audit", "commit", "fold"]

FOLDED = frozenset({"table", "now", "was", "sizes"})
"""Relations that a folded table is needed for."""
_TOUCHED = re.compile(r"\{touched:([^{}]+)\}")
_OF_TOUCHED = re.compile(r"\{(\w+):touched\}")
_KEYED = re.compile(r"(?<!\{)\{(\w+):((?:[^{}]|\{\{|\}\}|\{\w+\})+)\}")
JUDGED = {"rows": "rows", "made_of": "rows", "changelog": "changelog", "table": "table", "late": "read"}
"""Relations that an invariant is about, and whose rows they have; the others are what they are compared with.

``read`` are the records that the epoch read, which a rule about inputs alone judges."""


def _nothing(node: Node) -> None:
    return None


@dataclass(frozen=True)
class Rule:
    """What is declared of an invariant besides its query, which it decorates.

        @Rule("KIP-213, original value hash", ("fk-table-table",), (113, 122), blocking=True)
        def foreign_key_hash(node: Node) -> str:
            \"\"\"A key's last row was made for the current left value.\"\"\"
            return "SELECT … FROM {rows} …"

    Attributes
    ----------
    source
        The document and section that say it.
    families
        Families (or ``source``) that it applies to; `ANY`, `COMPUTED`.
    requirements
        Numbers of the documents' requirements that it covers.
    profiles
        Profiles that keep it; None: all.
    needs_table
        Applies only to nodes with a folded table.
    blocking
        Whether a violation keeps an epoch from being committed.
    stage
        ``epoch``: judged on the rows that an epoch computed; ``commit``: on the files that its commit names; ``table``:
        on what is stored; ``verify``: by computing it again.
    tolerated
        Share of the checked rows that may be bad without violating it.
    excluded
        Why a node of these families need not keep it; None where it must.
    cure
        What fixes a violation at a node, as a sentence without its full stop; None where that depends.
    """

    source: str
    families: tuple[str, ...]
    requirements: tuple[int, ...] = ()
    profiles: tuple[str, ...] | None = DOCUMENTED
    needs_table: bool = False
    severity: Severity = "critical"
    blocking: bool = False
    stage: Stage = "epoch"
    tolerated: float = 0.0
    excluded: Callable[[Node], str | None] = _nothing
    cure: Callable[[Node], str | None] = _nothing

    def __call__(self, violations: Callable[[Node], str]) -> Invariant:
        """The invariant of a query: its id is the function's name, its sentence the docstring."""
        sentence = violations.__doc__
        assert sentence, f"{violations.__name__} has no sentence: write it as the docstring, and run without -OO"
        return Invariant(**vars(self), id=violations.__name__, sentence=sentence, violations=violations)


@dataclass(frozen=True, kw_only=True)
class Invariant(Rule):
    """One rule that results must keep.

    Attributes
    ----------
    sentence
        What holds, as a reader of the checks page sees it.
    violations
        The query for a node: bad rows only. A brace that names no relation is doubled.
    """

    id: str
    sentence: str
    violations: Callable[[Node], str]

    def applies_to(self, node: Node) -> bool:
        """Whether the node's results must keep this invariant."""
        made = node.operation
        kept = self.profiles is None or made is None or made.semantics in self.profiles
        mine = {*ANY, "source"} if made is None else {*ANY, *COMPUTED, made.family}
        has_table = node.is_table or not self.needs_table
        return kept and has_table and not mine.isdisjoint(self.families) and self.excluded(node) is None


def relations_of(query: str) -> tuple[str, ...]:
    """Relations that a query names, in the order in which it first names them."""
    named = ((name, *relations_of(keys or "")) for _, name, keys, _ in Formatter().parse(query) if name is not None)
    return tuple(dict.fromkeys(name for names in named for name in names))


def for_keys(query: str, some: bool) -> str:
    """The query with its ``{touched:KEY}`` and ``{name:touched}`` written out: of those of ``{touched}``, or of all."""
    touched = "SELECT key FROM {touched}"
    query = _OF_TOUCHED.sub(lambda name: f"{{{name[1]}:{touched}}}" if some else f"{{{name[1]}}}", query)
    return _TOUCHED.sub(lambda key: f"{key[1]} IN ({touched})" if some else "true", query)


def of_keys(query: str, rows: Callable[[str, str], str]) -> str:
    """The query with each ``{name:KEYS}`` as the subquery that ``rows`` gives for the name and the keys."""
    return _KEYED.sub(lambda found: rows(found[1], found[2]), query)


def find_relation(query: str) -> str | None:
    """Relation whose rows the query judges."""
    named = relations_of(query)
    of_inputs = "read" if {"new_left", "new_right", "left", "right"} & {*named} else None
    return next((JUDGED[name] for name in named if name in JUDGED), of_inputs)


def moment_of(invariant: Invariant, node: Node) -> Moment:
    """When a run judges an invariant: with the epoch's rows, their commit, or the fold of the table.

    The rows of an epoch are judged once, before its commit, also by rules about ``{changelog}``: the commit names the
    very files that were judged.
    """
    if invariant.stage == "commit":
        return "commit"
    try:
        named = FOLDED & {*relations_of(invariant.violations(node))}
    except Exception:  # a user's rule that is not a query: judging it says so
        named = frozenset()
    return "fold" if invariant.stage == "table" and (invariant.needs_table or named) else "audit"


def quote(column: str) -> str:
    """Write a column's name as a query must, whatever characters it has."""
    return "`" + column.replace("`", "``").replace("{", "{{").replace("}", "}}") + "`"


def pack(columns: Iterable[str]) -> str:
    """Write a struct of columns, so that all are compared at once and null-safely."""
    return f"struct({', '.join(quote(column) for column in columns)})"
