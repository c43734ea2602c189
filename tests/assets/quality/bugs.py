"""Bugs in our own code, planted in the epochs of single nodes: what invariants are there to find.

| place | what is wrong | who can see it first |
|---|---|---|
| ``rows`` | an operator's rows, or a source's records | the audit |
| ``offsets`` | how they are numbered | the audit |
| ``commit`` | what is named in the log is not what was judged | the check on the commit |
| ``fold`` | what is written in the place of the table is not the changelog's fold | checks on the table |
| ``merge`` | what is MERGEd into it is not | checks on the table |

A run does all of it itself: nothing of Spark, Delta or Dagster is replaced, and no table is modified externally, which
planning would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta import fold, staged
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.staged import Staged
from rivermeet.infra.epochs import rows as epoch_rows
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.stages import commit, write

Change = Callable[[DataFrame], DataFrame]
Place = Literal["rows", "offsets", "commit", "fold", "merge"]


@dataclass(frozen=True)
class Bug:
    """A change of a node's rows at one place, and the ids of the invariants that it breaks."""

    node: str
    breaks: str
    change: Change
    place: Place = "rows"


def changed(where: str, **columns: str) -> Change:
    """Other values, given as SQL, in some rows."""
    given = {name: f"CASE WHEN {where} THEN {sql} ELSE {name} END" for name, sql in columns.items()}
    return lambda rows: rows.withColumns({name: F.expr(sql) for name, sql in given.items()}) if given else rows


def copied(where: str, **columns: str) -> Change:
    """Some rows once more, with other values given as SQL; a copy comes with its original in the order.

    Not by a union with itself, which doubles the plan: after five of them Spark is busy with that alone.
    """

    def change(rows: DataFrame) -> DataFrame:
        copies = F.expr(f"explode(CASE WHEN {where} THEN array(false, true) ELSE array(false) END)")
        return changed("__copy", **columns)(rows.withColumn("__copy", copies)).drop("__copy")

    return change


def without(where: str) -> Change:
    """Some rows lost."""
    return lambda rows: rows.where(f"NOT coalesce({where}, false)")


def plant(patched: pytest.MonkeyPatch, bugs: Sequence[Bug]) -> None:
    """Let the bugs be in the code: each in every epoch of its node, in the order in which they are given."""

    def wrong(rows: DataFrame, node: str, place: Place) -> DataFrame:
        for bug in bugs:
            if (bug.node, bug.place) == (node, place):
                rows = bug.change(rows)
        return rows

    def with_offsets(rows: DataFrame, plan: EpochPlan) -> DataFrame:
        return wrong(epoch_rows.with_offsets(wrong(rows, plan.node, "rows"), plan), plan.node, "offsets")

    def other_than(found: Staged, node: str, place: Place) -> Staged:
        """Files with the node's bugs at the place, or those that were found."""
        if not any((bug.node, bug.place) == (node, place) for bug in bugs):
            return found
        rows = staged.read_staged(found, SparkSession.active().range(0))
        other = staged.stage(wrong(rows, node, place), found.table, "other")
        assert other is not None
        return other

    def commit_staged(
        found: Staged, app_id: str, epoch: int, note: CommitNote, rows: bool = True, **options: Any
    ) -> None:
        """Name other files than were judged."""
        _, node, *_ = app_id.split("/")
        staged.commit_staged(other_than(found, node, "commit"), app_id, epoch, note, rows, **options)

    # Nodes are folded side by side, so that whose table it is must be seen from what a function is given.
    stage_whole, last_by_key = fold.stage_whole, fold._last_by_key

    def stage_wrong(changelog: str, path: str, *given: Any) -> Staged | None:
        node = path.split("/")[-2]
        if any((bug.node, bug.place) == (node, "merge") for bug in bugs):
            return None  # where a MERGE is wrong there is one
        whole = stage_whole(changelog, path, *given)
        return other_than(whole, node, "fold") if whole is not None else None

    def merge_wrong(changelog: DataFrame, paths: NodeTables, *given: Any) -> DataFrame:
        return wrong(last_by_key(changelog, paths, *given), paths.node, "merge")

    patched.setattr(write, "with_offsets", with_offsets)
    patched.setattr(commit, "commit_staged", commit_staged)
    patched.setattr(fold, "stage_whole", stage_wrong)
    patched.setattr(fold, "_last_by_key", merge_wrong)
