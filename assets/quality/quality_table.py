"""The quality table: what was found of each invariant in each epoch, appended and read without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from filelock import FileLock

from rivermeet.expectations.invariant import moment_of
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra.delta.lines import append_lines, lines_of, open_table
from rivermeet.infra.epochs.context import Quality
from rivermeet.pipelines import Node

if TYPE_CHECKING:
    import pyarrow.compute as pc


class State(NamedTuple):
    """What was found of an invariant, and the epoch of that: of a folded table, the one that it was folded to.

    ``judged_by`` is the engine, where it was recorded, and ``because`` why it is Spark.
    """

    state: str
    checked: int | None
    violations: int | None
    epoch: int
    judged_by: str | None = None
    because: str | None = None


States = Mapping[str, State]
"""Invariant to what was found of it last."""


def remember(quality: Quality, node: Node, epoch: int, results: Sequence[InvariantResult], run: str, name: str) -> None:
    """Append what was found, once per run, epoch and ``name``."""
    import pyarrow as pa

    from rivermeet.expectations.history import SCHEMA, history

    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
    with FileLock(quality.lock):
        app_id = f"{node.pipeline.name}.{node.name}/{run}/{name}"
        append_lines(history(node, epoch, run, results), schema, quality.table, app_id, epoch)


def lines_about(node: Node, epoch: int | None = None) -> pc.Expression:
    """Filter for a node's rows; of one epoch, or of all."""
    import pyarrow.compute as pc

    here = (pc.field("pipeline") == node.pipeline.name) & (pc.field("node") == node.name)
    return here if epoch is None else here & (pc.field("epoch") == epoch)


def quality_lines(
    quality: Quality, wanted: pc.Expression, columns: list[str] | None = None, oldest: int = 0, by: str = "epoch"
) -> Sequence[Mapping[str, Any]]:
    """Rows in the columns of `expectations.history.SCHEMA`.

    Parameters
    ----------
    columns
        Only these.
    oldest
        Files with only smaller values of ``by`` are not looked at.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from rivermeet.expectations.history import SCHEMA

    def not_older(files: pa.Table) -> pa.Table:
        newest = f"max.{by}"
        return files.filter(pc.field(newest) >= oldest) if newest in files.column_names else files

    table = open_table(quality.table)
    if table is None:
        return ()
    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in SCHEMA.items()])
    return lines_of(table, quality.table, schema, not_older).to_table(columns, filter=wanted).to_pylist()


def last_states(quality: Quality, node: Node, epoch: int | None = None) -> States:
    """What the node's newest judgement found, or that of one epoch; of its folded table, what its last fold gave."""
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
