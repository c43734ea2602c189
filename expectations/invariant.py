"""What an invariant is: a sentence from a document, and a query that returns what breaks it.

A query names relations in braces; whoever evaluates it says what they are:

| relation | rows |
|---|---|
| ``{rows}`` | this epoch's result: key, value, timestamp, partition, offset, epoch, provenance |
| ``{earlier}`` | the join's own earlier rows that can still matter, same columns |
| ``{left}``, ``{right}`` | input records that the epoch could see: new and open ones |
| ``{left}``, foreign key | the left table's live rows after the epoch |
| ``{left}``, ``{right}``, table join | the tables' live rows after the epoch |
| ``{before}`` | the folded result before the epoch |
| ``{bounds}`` | partition, first_offset where this epoch's offsets must start; absent: 0 |
| ``{changelog}`` | the whole committed changelog |
| ``{table}`` | the folded table |
| ``{late}`` | what the epoch dropped, in the columns of ``joins/late.py``; checked: records that it read |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from string import Formatter
from typing import Literal

from pipelines import Node

ANY = frozenset({"*"})
"""Every family, sources too."""
DOCUMENTED = ("3.1",)
"""The profile that keeps what the documents say; older and released ones are there to break some of it."""
Severity = Literal["critical", "warning", "info"]
Stage = Literal["epoch", "table"]

JUDGED = ("rows", "changelog", "table", "late")
"""Relations whose rows an invariant is about; the others are what they are compared with."""


@dataclass(frozen=True)
class Invariant:
    """One rule that results must keep.

    Attributes
    ----------
    sentence
        What holds, as a reader of the checks page sees it.
    source
        Document and section that say so, with the number of the requirement.
    families
        Families (or ``source``) that it applies to; `ANY`.
    profiles
        Profiles that keep it; None: all.
    needs_table
        Applies only to nodes with a folded table.
    blocking
        Whether a violation keeps an epoch from being committed.
    stage
        ``epoch``: judged on the result before it is committed; ``table``: on what is committed.
    violations
        The query for a node: bad rows only. A brace that is no relation is doubled.
    tolerated
        Share of the checked rows that may be bad without breaking it.
    """

    id: str
    sentence: str
    source: str
    families: frozenset[str]
    needs_table: bool
    severity: Severity
    blocking: bool
    stage: Stage
    violations: Callable[[Node], str]
    profiles: tuple[str, ...] | None = DOCUMENTED
    tolerated: float = 0.0

    def applies_to(self, node: Node) -> bool:
        """Whether the node's results must keep this invariant."""
        if self.needs_table and not node.is_table:
            return False
        made = node.operation
        kept = self.profiles is None or made is None or made.semantics in self.profiles
        return kept and (self.families == ANY or family_of(node) in self.families)


def family_of(node: Node) -> str:
    """Join family that the node's records come from, or ``source``."""
    return node.operation.family if node.operation is not None else "source"


def relations_of(query: str) -> tuple[str, ...]:
    """Relations that a query names, in the order in which it first names them."""
    names = (name for _, name, _, _ in Formatter().parse(query) if name is not None)
    return tuple(dict.fromkeys(names))


def judged_relation(query: str) -> str | None:
    """Relation whose rows the query judges."""
    return next((name for name in relations_of(query) if name in JUDGED), None)


def quoted(column: str) -> str:
    """Write a column's name as a query must, whatever characters it has."""
    return "`" + column.replace("`", "``").replace("{", "{{").replace("}", "}}") + "`"


def packed(columns: Iterable[str]) -> str:
    """Write a struct of columns, so that all are compared at once and null-safely."""
    return f"struct({', '.join(quoted(column) for column in columns)})"
