"""Streams, tables and global tables, with the verbs of Kafka Streams in snake case.

A node is a frozen value: its name, its key and value columns, and where its records come from (files, a topic, or an
operation on other nodes). What a verb accepts is checked in ``pipelines/declare``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rivermeet.pipelines.declare import aggregates, global_tables, stateless, streams, tables
from rivermeet.pipelines.errors import DeclarationError
from rivermeet.pipelines.joins import GlobalGlobalJoin, How, Join, Operation, ValueExpr
from rivermeet.pipelines.operations import Aggregation
from rivermeet.pipelines.reads.kafka import Format
from rivermeet.pipelines.shadow.declaration import Shadow, shadow
from rivermeet.pipelines.sink import TopicSink, Written, WrittenValue, topic_sink
from rivermeet.pipelines.source import Expr, Source
from rivermeet.pipelines.window import SlidingWindows, TimeWindows

if TYPE_CHECKING:
    from rivermeet.pipelines.grouped import GroupedStream, GroupedTable
    from rivermeet.pipelines.pipeline import Pipeline

OF_ITS_TOPIC = 0
"""Number of partitions of a node that keeps those of the topic it comes from: only the broker knows how many."""
RESERVED = ("_timestamp", "_partition", "_offset")
"""Columns that a folded table adds to those of key and value."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """One changelog of a pipeline.

    Attributes
    ----------
    key
        Key columns with their Spark SQL types.
    value
        Names of the value columns.
    partitions
        Number of partitions; `OF_ITS_TOPIC` where they are those of a topic.
    origin
        The source or the operation that the records come from.
    fold
        When a table is folded: ``"run"``, in each run that has news of it, or ``"due"``, when what it lacks has grown
        to a tenth of it. None: ``"run"`` where no other node reads it, else ``"due"``.
    """

    pipeline: Pipeline = field(repr=False)
    name: str
    key: Mapping[str, str]
    value: tuple[str, ...]
    partitions: int
    origin: Source | Operation = field(repr=False)
    description: str = ""
    fold: str | None = None

    kind = "node"

    @property
    def operation(self) -> Operation | None:
        """What this node is computed by, or None for a source."""
        return self.origin if isinstance(self.origin, Operation) else None

    @property
    def join_spec(self) -> Join | None:
        """The join that this node is the result of, or None."""
        return self.origin if isinstance(self.origin, Join) else None

    @property
    def source(self) -> Source | None:
        """The source that this node is read from, or None for a computed one."""
        return self.origin if isinstance(self.origin, Source) else None

    @property
    def is_table(self) -> bool:
        """Whether the changelog is folded into a table."""
        return self.kind != "stream"

    @property
    def is_stored(self) -> bool:
        """Whether the node has a changelog; a view has none."""
        return self.kind != "global_view"

    def to_topic(
        self, topic: str, value: WrittenValue | None = None, key: Written | None = None, partitions: int | None = None
    ) -> TopicSink:
        """Write the changelog to a topic: a stream's rows as they are, a table's with null for what is deleted.

        Parameters
        ----------
        topic
            Name of the topic; it can be read by Kafka Streams as co-partitioned with any other topic of such keys.
        value
            Format of the values: `JSON` (default), or `Avro` or `Protobuf` by a schema that is made of the node's
            columns and put into the schema registry as subject ``TOPIC-value``.
        key
            Format of the keys. Default: `Text` of a key that is one STRING, else `JSON`.
        partitions
            How many the topic gets if it is not there. Without it the topic has to be there.
        """
        return self.pipeline.add_sink(topic_sink(self, topic, value, key, partitions))

    def shadowed_by(
        self, topic: str, group: str | None = None, value: Format | None = None, key: Format | None = None
    ) -> Shadow:
        """Compare the node with what a Kafka Streams application wrote: what it lacks, or has too much.

        Parameters
        ----------
        topic
            Name of the application's output topic.
        group
            The application's id. Without it nobody knows how far it has read.
        value
            Format of its values. Default: `JSON` with the node's value columns.
        key
            Format of its keys. Default: `Text` of a key that is one STRING, else `JSON`.
        """
        return self.pipeline.add_shadow(shadow(self, topic, group, value, key))

    def refuse(self, name: str, problem: str) -> DeclarationError:
        """The error for a node ``name`` that cannot be made of this one."""
        return DeclarationError(self.pipeline.name, name, problem)


class Stream(Node):
    """A record stream: every record is an event of its own."""

    kind = "stream"

    def join(self, other: Node, name: str | None = None, **options: Any) -> Stream:
        """Inner join; options as for `left_join`."""
        return streams.join_stream(self, "inner", other, name, **options)

    def left_join(self, other: Node, name: str | None = None, **options: Any) -> Stream:
        """Join that keeps left records without a partner.

        Parameters
        ----------
        other
            A stream (give ``window``), a table with the same key, a global table or view (give ``key``), or a windowed
            table (give ``window_start``).
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            ``select``: output column to an SQL expression over ``left.*`` and ``right.*``, or to a function of the
            two columns; default all value columns of both. ``semantics``: profile, default ``"3.1"``.
            ``max_task_idle_ms``: how long to wait for a slower input, default 0, None for ever.
            ``window``: `JoinWindow`; ``eager=True`` keeps the old windows' eager rows in profile ``"kafka-4"``.
            ``grace``: duration for which records wait for updates of a versioned table.
            ``key``: SQL over the left record's columns, or one per key column of the global table.
            ``bootstrap``: ``"epoch"`` loads an epoch's updates of the global table before its facts,
            ``"timestamp"`` interleaves them. ``window_start``: SQL giving the window (ms) to look up.
        """
        return streams.join_stream(self, "left", other, name, **options)

    def outer_join(self, other: Node, name: str | None = None, **options: Any) -> Stream:
        """Join that keeps records of both sides without a partner; streams only. Options as for `left_join`."""
        return streams.join_stream(self, "outer", other, name, **options)

    def filter(self, where: str, name: str) -> Stream:
        """Only records for which the SQL over key and value columns is true."""
        return stateless.filtered(self, where, name)

    def map_values(self, select: Mapping[str, ValueExpr], name: str) -> Stream:
        """Another value: output column to SQL over key and value columns. A null value stays null."""
        return stateless.mapped_values(self, select, name)

    def select_key(self, key: Mapping[str, Expr], name: str, partitions: int | None = None) -> Stream:
        """Another key, ``expr(sql, TYPE)`` per column, and the records repartitioned by it."""
        return stateless.selected_key(self, key, name, partitions)

    def merge(self, other: Stream, name: str) -> Stream:
        """The records of both streams, which have the same columns and partitions."""
        return stateless.merged(self, other, name)

    def to_table(self, name: str, history: str | int | None = None, fold: str | None = None) -> Table:
        """The stream read as the changelog of a table; ``history`` as in `Pipeline.table`, ``fold`` as in `Node`."""
        return stateless.to_table(self, name, history, fold)

    def group_by_key(self) -> GroupedStream:
        """Records by their key, to be windowed and aggregated."""
        return aggregates.grouped_stream(self)

    def group_by(self, key: Mapping[str, Expr], name: str, partitions: int | None = None) -> GroupedStream:
        """Records by another key: `select_key` under ``name``, then `group_by_key`."""
        return self.select_key(key, name, partitions).group_by_key()


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Node):
    """A table: a record replaces the one of the same key, a tombstone removes it.

    ``history`` (ms) makes it versioned: look-ups see what a key was that long ago, and an update older than the
    key's present one is not forwarded.
    """

    history: int | None = None

    kind = "table"

    def join(self, other: Node, name: str | None = None, **options: Any) -> Table:
        """Inner join; options as for `left_join`."""
        return tables.join_table(self, "inner", other, name, **options)

    def left_join(self, other: Node, name: str | None = None, **options: Any) -> Table:
        """Join with a table of the same key, or on a foreign key, that keeps left rows without a partner.

        Parameters
        ----------
        other
            The other table; for a foreign key, the table that it points to.
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            ``foreign_key``: SQL over the left record's key and value columns, or one per key column of ``other``;
            absent: the join is on the key. ``cache="epoch"``: only the net change per key and epoch. ``fold``: when
            the table is folded, ``"run"`` or ``"due"`` (`Node`). ``select``, ``semantics`` and ``max_task_idle_ms`` as
            for streams.
        """
        return tables.join_table(self, "left", other, name, **options)

    def outer_join(self, other: Node, name: str | None = None, **options: Any) -> Table:
        """Join on the key that keeps rows of both sides; refused for foreign keys. Options as for `left_join`."""
        return tables.join_table(self, "outer", other, name, **options)

    def one_to_many_join(self, many: Table, name: str | None = None, **options: Any) -> Table:
        """Inner join with the rows of ``many`` that point here; the result is keyed by both keys.

        Parameters
        ----------
        **options
            ``foreign_key``: SQL over the record of ``many``, or one per key column of this table. Others as for
            `left_join`.
        """
        return tables.one_to_many(self, many, name, **options)

    def filter(self, where: str, name: str, fold: str | None = None) -> Table:
        """Only rows for which the SQL over key and value columns is true; ``fold`` as in `Node`."""
        return stateless.filtered(self, where, name, fold)

    def map_values(self, select: Mapping[str, ValueExpr], name: str, fold: str | None = None) -> Table:
        """Another value: output column to SQL over key and value columns; ``fold`` as in `Node`."""
        return stateless.mapped_values(self, select, name, fold)

    def to_stream(self, name: str) -> Stream:
        """The table's changelog read as a stream."""
        return stateless.to_stream(self, name)

    def group_by(self, key: Mapping[str, Expr]) -> GroupedTable:
        """Rows by another key, ``expr(sql, TYPE)`` per column, to be aggregated."""
        return aggregates.grouped_table(self, key)


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowedTable(Table):
    """A table of windows: its key ends with ``window_start`` and ``window_end`` (ms, the end excluded).

    Made by a windowed aggregate alone. Its joins have `Table`'s options, and ``window_map``: a duration, by which the
    right row's window starts later than the left row's (``"-7d"``: the same window last week).
    """

    windows: TimeWindows | SlidingWindows

    kind = "windowed_table"


class GlobalTable(Node):
    """A table that every partition sees whole: looked up by any expression, never triggering."""

    kind = "global_table"

    def join(self, other: GlobalTable, name: str | None = None, **options: Any) -> GlobalView:
        """Inner join; options as for `left_join`."""
        return global_tables.join_global(self, "inner", other, name, **options)

    def left_join(self, other: GlobalTable, name: str | None = None, **options: Any) -> GlobalView:
        """A view of this table with what ``key`` (SQL, or one per key column) finds in the other."""
        return global_tables.join_global(self, "left", other, name, **options)

    def outer_join(self, other: GlobalTable, name: str | None = None, **options: Any) -> GlobalView:
        """Refused: a right row that nothing points to has no key to be found by."""
        return global_tables.join_global(self, "outer", other, name, **options)


class GlobalView(GlobalTable):
    """A join of two global tables, resolved when it is read: nothing of it is stored."""

    kind = "global_view"

    @property
    def join_spec(self) -> GlobalGlobalJoin:
        """The join that is resolved."""
        assert isinstance(self.origin, GlobalGlobalJoin)
        return self.origin


__all__ = [
    "OF_ITS_TOPIC",
    "RESERVED",
    "Aggregation",
    "GlobalTable",
    "GlobalView",
    "How",
    "Node",
    "Stream",
    "Table",
    "WindowedTable",
]
