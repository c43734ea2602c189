"""Relations of an epoch that is not committed, or judged as if it were not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assets.quality.relations.inputs import InputRelations, Relations
from assets.quality.relations.sql import at_version, bounds, lines, version_before
from expectations.results import Relation
from infra.delta.io import quoted
from infra.delta.layout import NodeTables
from infra.epochs.inputs import broadcast_if_few
from infra.epochs.plan import EpochPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def epoch_relations(
    spark: SparkSession,
    paths: NodeTables,
    plan: EpochPlan,
    rows: DataFrame,
    count: int,
    inputs: InputRelations | None,
) -> Relations:
    """Relations by which an epoch's rows are judged, as of what its plan could see.

    Parameters
    ----------
    paths
        The node's own tables.
    count
        How many ``rows`` there are.
    """
    changelog = paths.changelog
    relations: Relations = {
        "rows": lambda: Relation(
            broadcast_if_few(rows, count), f"(SELECT * FROM delta.{quoted(changelog)} WHERE epoch = {plan.epoch})"
        ),
        "bounds": lambda: bounds(spark, plan),
        "times": lambda: lines(spark, {"partition": "INT", "stream_time": "BIGINT"}, plan.stream_time.items()),
        "before": lambda: _before(spark, paths.table, plan, rows),
    }
    if inputs is not None:
        relations |= inputs.all()
        relations["earlier"] = lambda: _earlier(inputs, rows, changelog)
    return relations


def _before(spark: SparkSession, path: str, plan: EpochPlan, rows: DataFrame) -> Relation:
    """The folded result before the epoch, also where the epoch is judged once more."""
    from records.changelog import flatten

    version = version_before(path, plan)
    if version is not None:
        return at_version(spark, path, version)
    nothing = flatten(rows.where("false")).drop("_deleted")
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in nothing.dtypes)
    return Relation(nothing, f"(SELECT {columns} WHERE false)")


def _earlier(inputs: InputRelations, rows: DataFrame, changelog: str) -> Relation:
    """The node's own earlier rows that still matter."""
    version = inputs.plan.output_version
    emitted = inputs.pinned.emitted(inputs.node, inputs.slack)
    if emitted is None or version is None:
        return Relation(rows.where("false"), f"(SELECT * FROM delta.{quoted(changelog)} WHERE false)")
    still = inputs.pinned.open_sql(inputs.slack)
    sql = f"(SELECT * FROM delta.{quoted(changelog)} VERSION AS OF {version} WHERE {still})"
    return Relation(inputs.shared.keep(emitted), sql)
