"""The pinned inputs of a plan, as DataFrames: an epoch's records, open records, and tables as of a position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rivermeet.infra.commit_note import Offsets, within
from rivermeet.infra.delta.changelog_files import any_of_sql, count_between, earlier_epochs, lookup_sql, records
from rivermeet.infra.delta.column_ranges import ColumnRanges, all_of_ranges, any_of_ranges, has_range
from rivermeet.infra.delta.io import notes, read
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.plain_files import schema_at
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import Node, limits
from rivermeet.records.changelog import RECORD, as_of, unflatten
from rivermeet.records.known_schemas import with_schema


def broadcast_if_few(rows: DataFrame, count: int) -> DataFrame:
    """Rows of an epoch, about that many, marked to be broadcast if they are few.

    Spark does not know the number before it counts them, and would sort a million rows to join ten thousand.
    """
    return F.broadcast(rows) if count <= limits.BROADCAST_ROWS else rows


@dataclass(frozen=True)
class PinnedInputs:
    """The frames that one plan may read.

    ``nodes`` are the inputs by side; ``elsewhere`` has the folder or URL of nodes, by name, that have another one.
    """

    spark: SparkSession
    plan: EpochPlan
    tables: str
    nodes: Mapping[str, Node]
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def paths(self, side: str) -> NodeTables:
        """Locations of the input's tables."""
        node = self.nodes[side]
        return NodeTables(self.elsewhere.get(node.name, self.tables), node.pipeline.name, node.name)

    def changelog(
        self, side: str, after: Mapping[int, int], upto: Offsets, columns: Sequence[str] = RECORD
    ) -> DataFrame:
        """Records of the input's changelog with offsets in ``(after, upto]``.

        They are read with its newest columns: records from before a column was added have NULL there. A skipped record
        is absent from a stream; in a table it is a tombstone, because no row can be computed from its value.
        """
        path = self.paths(side).changelog
        shape = schema_at(path)
        kinds = StructType([shape[name] for name in columns])
        found = with_schema(records(self.spark, path, after, upto).select(*columns), kinds)
        skipped = self._match_skipped(side)
        if skipped is None:
            return found
        if not self.nodes[side].is_table:
            return found.where(~skipped)
        return with_schema(found.withColumn("value", F.when(~skipped, F.col("value"))), kinds)

    def read_skipped(self, side: str) -> DataFrame | None:
        """The epoch's skipped records, unchanged; None if none is skipped."""
        part, skipped = self.plan.inputs[side], self._match_skipped(side)
        if skipped is None:
            return None
        return records(self.spark, self.paths(side).changelog, part.after, part.upto).where(skipped)

    def _match_skipped(self, side: str) -> Column | None:
        # Both sides of a self-join are the same input.
        skipped = [r for r in self.plan.skipped if self.nodes[r.side] is self.nodes[side]]
        places = [f"(partition = {r.partition} AND offset = {r.offset})" for r in skipped]
        return F.expr(any_of_sql(places)) if places else None

    def new(self, side: str) -> DataFrame:
        """The epoch's records of one input."""
        part = self.plan.inputs[side]
        return self.changelog(side, part.after, part.upto)

    def open_records(self, side: str, slack: int) -> DataFrame:
        """Records of earlier epochs with ``timestamp + slack > stream time`` of their partition (ms)."""
        return self.earlier(side).where(self._open(slack))

    def earlier(self, side: str) -> DataFrame:
        """All records of earlier epochs."""
        return self.changelog(side, {}, self.plan.inputs[side].after)

    def where_needed(self, side: str, ways: Sequence[Mapping[str, tuple[str, str]]]) -> str | None:
        """SQL that is true for at least the needed rows of an input's table; None if all rows may be needed.

        It consists of ranges only, so that files of the table are skipped by their statistics. ``ways`` are those in
        which a row is needed: its columns to the side and the column that they are equal to there.
        """
        shape = schema_at(self.paths(side).changelog)
        ranges: dict[str, ColumnRanges] = {}
        for other in {other for way in ways for other, _ in way.values()}:
            part = self.plan.inputs[other]
            ranges[other] = ColumnRanges.of_changelog(self.paths(other).changelog, part.after, part.upto)
        return any_of_ranges(
            all_of_ranges(
                ranges[s].sql(theirs, mine.split(".", 1))
                for mine, (s, theirs) in way.items()
                if _has_range(shape, mine)
            )
            for way in ways
        )

    def table(self, side: str, moment: str, needed: str | None = None) -> DataFrame:
        """Live rows of an input table ``before`` or ``after`` the epoch's records.

        ``needed`` is SQL for the needed rows; the result may contain others, too.
        """
        part = self.plan.inputs[side]
        position = part.after if moment == "before" else part.upto
        tail, folded = self.changelog(side, part.table_ends, position, (*RECORD, "epoch")), None
        if part.table_version is not None:
            folded = read_folded(self.spark, self.paths(side), part.table_version)
            if (skipped := self._match_skipped(side)) is not None:
                folded = folded.where(~skipped)
            if needed is not None:
                # Rows that are excluded here but changed since come from the tail.
                folded = folded.where(needed)
            if part.table_ends == position:
                return folded
        return as_of(folded, tail, few=count_between(part.table_ends, position) <= limits.BROADCAST_ROWS)

    def read_emitted(self, node: Node, slack: int | None) -> DataFrame | None:
        """The node's own earlier rows, with ``timestamp + slack > stream time`` (ms) if a slack is given."""
        if self.plan.output_version is None:
            return None
        path = NodeTables(self.tables, self.plan.pipeline, node.name).changelog
        earlier = earlier_epochs(self.spark, path, self.plan.epoch)
        return earlier if slack is None else earlier.where(self._open(slack))

    def memory(self, node: Node) -> DataFrame | None:
        """The operator state that the node's last committed epoch stored."""
        path = NodeTables(self.tables, self.plan.pipeline, node.name).memory
        memory = open_table(path)
        if self.plan.output_version is None or memory is None:
            return None
        # Pinned: this epoch writes here before it has finished reading, and a write drops the cache of the newest
        # version.
        return read(self.spark, path, memory.version()).where(f"epoch = {self.plan.previous_epoch}").drop("epoch")

    def _open(self, slack: int) -> Column:
        return F.expr(open_sql(self.plan, slack))


def read_folded(spark: SparkSession, paths: NodeTables, version: int) -> DataFrame:
    """Rows of a version of a folded table, in the changelog's shape: it may be older than a column or a wider type."""
    shape = schema_at(paths.changelog)
    key, value = (cast(StructType, shape[column].dataType) for column in ("key", "value"))
    return unflatten(read(spark, paths.table, version), key, value, schema_at(paths.table, version))


def open_sql(plan: EpochPlan, slack: int) -> str:
    """SQL for whether ``timestamp + slack > stream time`` of a record's partition (ms)."""
    times = plan.stream_time
    if len(times) > limits.NAMED_PARTITIONS:
        return f"timestamp > {lookup_sql(times)} - {slack}L"
    return any_of_sql([f"(partition = {int(p)} AND timestamp > {int(time) - slack}L)" for p, time in times.items()])


def pin_table(path: str, position: Offsets, incarnation: int) -> tuple[int | None, Offsets]:
    """The newest version of a folded table that is not past ``position``, and the position up to which it is folded."""
    for version, note in notes(path):
        if note.incarnation == incarnation and within(note.ends, position):
            return version, note.ends
    return None, {}


def _has_range(shape: StructType, column: str) -> bool:
    part, _, name = column.partition(".")
    return has_range(cast(StructType, shape[part].dataType)[name].dataType)
