"""The quality table: what was found of each invariant in each epoch, appended and read without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock

from rivermeet.expectations.invariant import moment_of
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.results import SCHEMA, InvariantResult, history
from rivermeet.infra.delta.lines import append_lines, lines_of, open_lines
from rivermeet.infra.epochs.context import EpochContext, Quality
from rivermeet.pipelines import Node


class State(NamedTuple):
    """The last result of an invariant, and its epoch: for a rule about a folded table, the one it was folded to.

    ``judged_by`` is the engine, if recorded, and ``because`` says why it was Spark.
    """

    state: str
    checked: int | None
    violations: int | None
    epoch: int
    judged_by: str | None = None
    because: str | None = None


_SCHEMA = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
States = Mapping[str, State]
"""Invariant to its last result."""


def record(
    context: EpochContext, node: Node, epoch: int, results: Sequence[InvariantResult], run: str, name: str
) -> list[InvariantResult]:
    """Record results under ``name``, like ``epoch-000007``, and return them in the order of their declaration."""
    order = {invariant.id: place for place, invariant in enumerate(invariants_of(node))}
    found = sorted(results, key=lambda result: order[result.invariant.id])
    remember(quality_of(context), node, epoch, found, run, name)
    return found


def quality_of(context: EpochContext) -> Quality:
    """The quality settings of a context that judges."""
    assert context.quality is not None, "verdicts are kept somewhere"
    return context.quality


def remember(quality: Quality, node: Node, epoch: int, results: Sequence[InvariantResult], run: str, name: str) -> None:
    """Append results, once per run, epoch and ``name``."""
    with FileLock(quality.lock):
        app_id = f"{node.pipeline.name}.{node.name}/{run}/{name}"
        append_lines(history(node, epoch, run, results), _SCHEMA, quality.table, app_id, epoch)


def lines_about(node: Node, epoch: int | None = None) -> pc.Expression:
    """Filter for a node's rows; of one epoch, or of all."""
    here = (pc.field("pipeline") == node.pipeline.name) & (pc.field("node") == node.name)
    return here if epoch is None else here & (pc.field("epoch") == epoch)


def quality_lines(
    quality: Quality, wanted: pc.Expression, columns: list[str] | None = None, oldest: int = 0, by: str = "epoch"
) -> Sequence[Mapping[str, Any]]:
    """Rows in the columns of `expectations.results.SCHEMA`, or some; files with only ``by < oldest`` are skipped."""
    table, newest = open_lines(quality.table), f"max.{by}"
    if table is None:
        return ()

    def choose(files: pa.Table) -> pa.Table:
        return files.filter(pc.field(newest) >= oldest) if newest in files.column_names else files

    return lines_of(table, quality.table, _SCHEMA, choose).to_table(columns, filter=wanted).to_pylist()


def last_states(quality: Quality, node: Node, epoch: int | None = None) -> States:
    """The newest results of a node, or those of one epoch; for rules about its folded table, those of the last fold."""
    columns = ["epoch", "invariant", "state", "checked", "violations", "judged_at", "judged_by", "because"]
    of_fold = [rule.id for rule in invariants_of(node) if moment_of(rule, node) == "fold"]
    about = quality_lines(quality, lines_about(node, epoch), columns, oldest=epoch or 0)
    if epoch is not None and not {line["invariant"] for line in about}.issuperset(of_fold):
        about = quality_lines(quality, lines_about(node), columns)
    # An epoch that was refused and then released has been judged twice.
    lines = sorted(about, key=lambda line: (line["epoch"], line["judged_at"] or 0))
    lines = [line for line in lines if epoch is None or line["epoch"] <= epoch]
    own = [line for line in lines if line["invariant"] not in of_fold]
    last = epoch if epoch is not None else max((line["epoch"] for line in own), default=0)
    wanted = [line for line in lines if line["invariant"] in of_fold or line["epoch"] == last]
    return {line["invariant"]: State(**{name: line[name] for name in State._fields}) for line in wanted}
