"""The checks of a node as the report shows them: invariants down, epochs across.

A cell is the newest judgement of its epoch. What was not judged is a cell of its own, and holds nothing:

    epoch              1        2        3              4
    pair_in_window     passed   passed   violated (2)   not judged     0 of 1 invariants hold, for epoch 4 counts
    unique_keys        passed   not judged   passed     not judged     holds: the table was last folded to epoch 3

Held by ``tests/expectations/test_report_checks.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rivermeet.expectations.invariant import moment_of
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.rules.verify import VERIFY
from rivermeet.pipelines import Node

REPLAY = "fold_equals_table"
"""The invariant that compares the changelog's replay with the stored table."""
NOT_JUDGED = "not judged"
_WORST = ("critical", "not evaluated", "warning", "info", NOT_JUDGED, "none")


@dataclass(frozen=True)
class Cell:
    """One invariant at one epoch: ``found`` is its row of the ``quality`` table, if any, ``sample`` bad rows as text.

    ``look`` is ``passed``, ``not evaluated``, ``not judged``, or the severity of what is violated.
    """

    epoch: int
    state: str
    look: str
    found: Mapping[str, Any]
    sample: Sequence[Mapping[str, str]] = ()


class Group(NamedTuple):
    """One invariant at several epochs: the worst look, and the violations and cells of that look."""

    look: str
    violations: int
    cells: Sequence[Cell]


@dataclass(frozen=True)
class CheckRow:
    """One invariant at all shown epochs; ``sentence`` and ``source`` are empty where it is no longer declared."""

    invariant: str
    sentence: str
    source: str
    cells: Sequence[Cell]
    of_fold: bool = False

    @property
    def newest(self) -> Cell:
        """Its cell of the newest epoch; of a folded table and of a verification, that of the last time."""
        folds = [cell for cell in self.cells if cell.found] if self.of_fold else []
        return folds[-1] if folds else self.cells[-1]

    @property
    def wrong(self) -> Sequence[Cell]:
        """The cells of epochs that it was judged for and did not hold, oldest first."""
        return [cell for cell in self.cells if cell.found and cell.state != "passed"]

    @property
    def since(self) -> Cell:
        """Where it began to be as it stands; epochs between that were not judged end nothing."""
        first = newest = self.newest
        for cell in reversed([cell for cell in self.cells if cell.epoch <= newest.epoch]):
            if cell.state == "passed" or (cell.found and not newest.found):
                break
            first = cell if cell.found or not newest.found else first
        return first

    def group(self, epochs: Sequence[int]) -> Group:
        """Several epochs as one: as bad as the worst of them."""
        of = set(epochs)
        cells = [cell for cell in self.cells if cell.epoch in of]
        look = worst(cell.look for cell in cells if cell.state != "passed")
        bad = [cell for cell in cells if cell.look == look]
        return Group("passed" if look == "none" else look, sum(cell.found.get("violations") or 0 for cell in bad), bad)

    @property
    def is_replay(self) -> bool:
        """Whether it compares what there is with what it is made from."""
        return self.invariant in (REPLAY, VERIFY.id)


@dataclass(frozen=True)
class Checks:
    """All checks of one node at its newest epochs, oldest first."""

    rows: Sequence[CheckRow]

    @property
    def standing(self) -> Sequence[Cell]:
        """What counts today: the newest epoch's cell of every invariant that is declared, or was judged then.

        Nobody has to verify an epoch.
        """
        return [row.newest for row in self.rows if row.newest.found or (row.sentence and row.invariant != VERIFY.id)]

    @property
    def wrong(self) -> Sequence[CheckRow]:
        """The invariants that count today and do not hold, the gravest first."""
        standing = {id(cell) for cell in self.standing if cell.state != "passed"}
        return sorted((r for r in self.rows if id(r.newest) in standing), key=lambda r: _WORST.index(r.newest.look))

    @property
    def holding(self) -> int:
        """How many hold at the newest epoch."""
        return sum(cell.state == "passed" for cell in self.standing)

    @property
    def worst(self) -> str:
        """The highest severity that is violated, ``not evaluated``, ``not judged``, or ``none``."""
        return worst(cell.look for cell in self.standing if cell.state != "passed")

    @property
    def replay(self) -> CheckRow | None:
        """The row that compares the replay with the table."""
        return next((row for row in self.rows if row.invariant == REPLAY), None)


def checks(node: Node, judged: Sequence[Mapping[str, Any]], epochs: Sequence[int]) -> Checks:
    """Put a node's rows of the ``quality`` table in order, for the epochs to show, oldest first, judged or not."""
    if not epochs:
        return Checks(())
    by_time = sorted(judged, key=lambda row: row.get("judged_at") or 0)
    newest = {(row["invariant"], row["epoch"]): row for row in by_time}
    declared = {invariant.id: invariant for invariant in invariants_of(node)}
    # Of all that is committed: a verification stands until the next one.
    of_fold = {VERIFY.id, *(rule.id for rule in declared.values() if moment_of(rule, node) == "fold")}
    rows = []
    for name in dict.fromkeys([*declared, *(row["invariant"] for row in judged if row["epoch"] in set(epochs))]):
        rule = declared.get(name, VERIFY if name == VERIFY.id else None)
        cells = [_cell(newest.get((name, epoch), {"epoch": epoch})) for epoch in epochs]
        sentence, source = (rule.sentence, rule.source) if rule else ("", "")
        rows.append(CheckRow(name, sentence, source, cells, name in of_fold))
    return Checks(rows)


def worst(looks: Iterable[str]) -> str:
    """The gravest of some looks."""
    return min(looks, key=_WORST.index, default="none")


def _cell(row: Mapping[str, Any]) -> Cell:
    if "state" not in row:
        return Cell(row["epoch"], NOT_JUDGED, NOT_JUDGED, {})
    look = row["severity"] if row["state"] == "violated" else row["state"]
    return Cell(row["epoch"], row["state"], look, row, json.loads(row["sample"] or "[]"))
