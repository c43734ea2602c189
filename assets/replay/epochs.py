"""Replay through the real epochs: changelogs of Delta, plans, commits, in a home of its own.

Inputs are written without Spark, and their tables folded after every second epoch: a table that is behind its changelog
is the usual case. The result is not folded, as no join reads its own table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rivermeet.assets.epoch.operator_step import OperatorStep
from rivermeet.assets.epoch.run import run_epoch
from rivermeet.assets.replay.cases import Case, declare
from rivermeet.assets.replay.run import (
    Place,
    Rows,
    Way,
    answers,
    in_listed_order,
    numbers_of,
    places,
    record_table,
    widest,
)
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.fold import fold
from rivermeet.infra.delta.io import append_records, read
from rivermeet.infra.engine.session import close, new_session
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def in_epochs(count: int, folder: str | None = None) -> Way:
    """Every case's records in ``count`` pieces of nearly equal length, an epoch for each.

    Tables are made in a ``folder`` of the system's by default, and removed afterwards.
    """

    def run(spark: SparkSession, cases: Sequence[Case]) -> Mapping[int, Rows]:
        with tempfile.TemporaryDirectory(prefix="rivermeet-replay-", dir=folder) as home:
            return _answer(spark, Path(home), cases, count)

    return run


def _answer(spark: SparkSession, home: Path, cases: Sequence[Case], count: int) -> Mapping[int, Rows]:
    node, numbers, folding = declare(widest(cases), len(cases)), numbers_of(spark, cases), new_session(spark)
    operation = node.operation
    assert operation is not None
    context = scratch_context(home, spark, folding)
    inputs: dict[str, tuple[str, Node]] = {}
    for side, source in operation.inputs.items():
        inputs.setdefault(source.name, (side, source))
    step = OperatorStep(node, context.tables, ordered=in_listed_order(numbers), numbers=numbers)
    notes: dict[str, CommitNote] = {}
    for epoch in range(1, count + 1):
        part = [
            (case, offset, record)
            for case, offset, record in places(cases)
            if offset * count // len(cases[case].input) + 1 == epoch
        ]
        for side, source in inputs.values():
            notes[side] = _publish(context, source, side, part, epoch, notes.get(side))
        run_epoch(context, step)
    changelog = read(spark, context.paths(node).changelog)
    found = answers(changelog, cases[0].join == "one-to-many", "epoch", "offset")
    close(folding)
    return found


def scratch_context(home: Path, spark: SparkSession, folding: SparkSession) -> EpochContext:
    """The context of epochs in a folder of their own: nothing is judged, and no result is folded."""
    locks = home / "locks"
    locks.mkdir()
    log = EpochLog(str(home / "epochs"), str(locks / "epochs.lock"))
    return EpochContext(str(home / "tables"), log, locks, lambda: spark, lambda: folding, folds="never")


def _publish(
    context: EpochContext,
    node: Node,
    side: str,
    part: Sequence[Place],
    epoch: int,
    previous: CommitNote | None,
) -> CommitNote:
    """One input's records of one epoch, committed as a source's are."""
    mine: list[Any] = [place for place in part if place[2].side == side]
    ends = (dict(previous.ends) if previous else {}) | {case: offset for case, offset, _ in mine}
    note = CommitNote(incarnation=1, epoch=epoch, ends=ends)
    if not mine and previous is not None:
        return previous
    commit_source(context, node, record_table(mine, side, "many_k" in node.key, epoch), note)
    return note


def commit_source(context: EpochContext, node: Node, rows: pa.Table, note: CommitNote) -> None:
    """Commit an epoch of a source without Spark; its table is folded after every second one."""
    paths = context.paths(node)
    append_records(rows, paths.changelog, paths.app_id("changelog", 1), note)
    if node.is_table and note.epoch % 2:
        fold(context.fold_session, paths, list(node.key), note)
