"""Relations of an epoch that is not committed, or judged as if it were not."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from assets.quality.relations.inputs import InputRelations, Relations
from assets.quality.relations.sql import at_version, bounds, lines
from expectations.results import Relation
from infra.delta.changelog_files import records
from infra.delta.io import read
from infra.delta.layout import NodeTables
from infra.epochs.inputs import FEW, broadcast_if_few, pinned_table
from infra.epochs.offsets import between_sql, count_between
from infra.epochs.plan import EpochPlan
from pipelines.source import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


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
        "before": lambda: _before(spark, paths, plan, rows),
        "placed": lambda: _placed(spark, paths, plan, rows),
    }
    if inputs is not None:
        relations |= inputs.all()
        relations["earlier"] = lambda: _earlier(inputs, rows, changelog)
    return relations


def _before(spark: SparkSession, paths: NodeTables, plan: EpochPlan, rows: DataFrame) -> Relation:
    """The folded result before the epoch, also where the epoch is judged once more, or its table is behind."""
    from records.changelog import as_of, flatten, unflatten

    version, ends = pinned_table(paths.table, plan.ends, plan.incarnation)
    if version is not None and ends == plan.ends:
        return at_version(spark, paths.table, version)
    if plan.output_version is None or not plan.ends:
        nothing = flatten(rows.where("false")).drop("_deleted")
        columns = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in nothing.dtypes)
        return Relation(nothing, f"(SELECT {columns} WHERE false)")
    tail = records(spark, paths.changelog, ends, plan.ends)
    key, value = (cast("StructType", tail.schema[column].dataType) for column in ("key", "value"))
    folded = None if version is None else unflatten(read(spark, paths.table, version), key, value)
    live = as_of(folded, tail, few=count_between(ends, plan.ends) <= FEW)
    known = f"SELECT * FROM delta.{quoted(paths.changelog)} WHERE ({between_sql({}, plan.ends)}) AND key IS NOT NULL"
    last = f"SELECT key, max_by(struct(value), offset) AS last FROM ({known}) GROUP BY key"
    sql = f"(SELECT key.*, last.value.* FROM ({last}) WHERE last.value IS NOT NULL)"
    return Relation(flatten(live).drop("_deleted"), sql)


def _placed(spark: SparkSession, paths: NodeTables, plan: EpochPlan, rows: DataFrame) -> Relation:
    """Keys with their partitions before the epoch: the folded table's, and those of the records since its last fold."""
    from records.changelog import unflatten

    columns, path = ("key", "partition"), quoted(paths.changelog)
    if plan.output_version is None or not plan.ends:
        none = rows.where("false").select(*columns)
        return Relation(none, f"(SELECT key, partition FROM delta.{path} WHERE false)")
    version, ends = pinned_table(paths.table, plan.ends, plan.incarnation)
    tail = records(spark, paths.changelog, ends, plan.ends)
    key, value = (cast("StructType", tail.schema[column].dataType) for column in ("key", "value"))
    frame = tail.select(*columns).where("key IS NOT NULL")
    sql = f"SELECT key, partition FROM delta.{path} WHERE ({between_sql(ends, plan.ends)}) AND key IS NOT NULL"
    if version is not None:
        frame = frame.unionByName(unflatten(read(spark, paths.table, version), key, value).select(*columns))
        own = f"struct({', '.join(quoted(name) for name in key.fieldNames())})"
        sql += f" UNION ALL SELECT {own}, _partition FROM delta.{quoted(paths.table)} VERSION AS OF {version}"
    return Relation(frame, f"({sql})")


def _earlier(inputs: InputRelations, rows: DataFrame, changelog: str) -> Relation:
    """The node's own earlier rows that still matter."""
    version = inputs.plan.output_version
    emitted = inputs.pinned.emitted(inputs.node, inputs.slack)
    if emitted is None or version is None:
        return Relation(rows.where("false"), f"(SELECT * FROM delta.{quoted(changelog)} WHERE false)")
    still = inputs.pinned.open_sql(inputs.slack)
    sql = f"(SELECT * FROM delta.{quoted(changelog)} VERSION AS OF {version} WHERE {still})"
    return Relation(inputs.shared.keep_if_few(emitted), sql)
