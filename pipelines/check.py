"""A rule of the user's own: a sentence about a node's rows, and a query that returns those that break it.

    PIPELINE.check(
        trips, "arrives_after_departure", "A flight arrives after it departed.",
        "SELECT * FROM {rows} WHERE value.arrived < value.departed")

A query names relations in braces. They determine when it is judged:

| relation | rows | judged |
|---|---|---|
| ``{rows}`` | the epoch's result: key, value, timestamp, partition, offset | before the epoch is committed |
| ``{changelog}`` | the same rows, committed; if checks are run alone, the whole changelog | after the commit |
| ``{table}`` | rows of the folded table that the epoch could change; run alone, all of them | after the commit |
| ``{new_left}``, ``{new_right}`` | the input records that the epoch consumed | with any of these |
| ``{left}``, ``{right}`` | of streams, the records that can still join; else a table's live rows | with any of these |

Held by ``tests/pipelines/test_check.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING, Literal, get_args

from rivermeet.pipelines.errors import DeclarationError, OptionError, list_choices
from rivermeet.pipelines.sql_text import explain_unrepeatable

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import Node

Severity = Literal["critical", "warning", "info"]
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_COMMITTED = ("changelog", "table")


@dataclass(frozen=True)
class Check:
    """One rule about one node.

    Attributes
    ----------
    id
        Its name among the node's checks.
    sentence
        What holds, in words.
    violations
        SQL that returns the rows that break it. A brace that is not a relation is doubled.
    blocking
        Whether a violation keeps the epoch from being committed; only of rules about ``{rows}``.
    """

    node: str
    id: str
    sentence: str
    violations: str
    severity: Severity = "warning"
    blocking: bool = False

    @property
    def on_committed(self) -> bool:
        """Whether it is judged on committed rows, and not on an epoch's rows before the commit."""
        return any(name in _COMMITTED for name in _names(self.violations))

    @property
    def of_table(self) -> bool:
        """Whether it is about the folded table."""
        return "table" in _names(self.violations)


def relations(node: Node) -> tuple[str, ...]:
    """Relations that a rule about the node may name."""
    found = ["rows", "changelog", *(["table"] if node.is_table else [])]
    made = node.operation
    for side, given in made.inputs.items() if made else ():
        if given.is_stored:
            found.append(f"new_{side}")
        if given.is_stored and (given.is_table or (made is not None and made.open_ms is not None)):
            found.append(side)
    return tuple(found)


def validate_check(node: Node, check: Check) -> Check:
    """The rule, if it can be judged; otherwise raise `DeclarationError`."""

    def refuse(problem: str) -> DeclarationError:
        return node.refuse(node.name, f"check {check.id!r}: {problem}")

    if not isinstance(check.id, str) or not _ID.fullmatch(check.id):
        raise refuse("a name is letters, digits and _, a letter first")
    if not node.is_stored:
        raise refuse("a view is resolved when it is read and has no rows of its own; check what is made of it")
    if not check.sentence.strip():
        raise refuse("say in a sentence what holds; it is what a reader of the checks sees")
    if check.severity not in get_args(Severity):
        raise refuse(f"severity={check.severity!r} is not one of {list_choices(get_args(Severity))}")
    offered = relations(node)
    try:
        names = _names(check.violations)
    except ValueError as error:
        raise refuse(f"its query has a brace that is no relation ({error}); double it") from None
    unknown = [name for name in names if name not in offered]
    if unknown:
        raise refuse(
            f"its query names {list_choices(unknown)}, and there are {list_choices(offered)}; double other braces"
        )
    judged = [name for name in names if name == "rows" or name in _COMMITTED]
    if not judged:
        raise refuse(
            f"its query names none of {list_choices(r for r in offered if r in ('rows', *_COMMITTED))} to judge"
        )
    if "rows" in judged and len(judged) > 1:
        raise refuse(f"its query names {list_choices(judged)}: rows are of one epoch, the others are what is stored")
    why = explain_unrepeatable(check.violations, [*node.key, *node.value])
    if why is not None:
        raise refuse(f"its query is judged again and must answer the same: {why}")
    if check.blocking and check.on_committed:
        raise refuse(
            f"blocking, but {list_choices(judged)} is judged after the commit; ask {{rows}}, or leave blocking=False"
        )
    return check


def _names(query: str) -> list[str]:
    """Relations that a query names."""
    found = [(name, more or conversion) for _, name, more, conversion in Formatter().parse(query) if name is not None]
    for name, more in found:
        if more:
            raise OptionError(f"'{name}' is followed by {more!r}")
    return list(dict.fromkeys(name for name, _ in found))
