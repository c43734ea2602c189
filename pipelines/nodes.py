"""Streams, tables and global tables, with the verbs of Kafka Streams in snake case.

A node is a frozen value: its name, its key and value columns, and where its records come from (files, a topic, or an
operation on other nodes). A verb derives a node from a node; an invalid argument is refused with the pipeline, the node
and the alternatives. The options of joins, and their checks, are in ``pipelines/joining.py``. Examples run with the
nodes that ``tests/pipelines/test_verbs.py`` declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast, overload

from rivermeet.pipelines import joining
from rivermeet.pipelines.errors import DeclarationError, list_choices
from rivermeet.pipelines.expressions import Expr
from rivermeet.pipelines.joining import (
    WINDOW_KEY,
    ForeignKeyOptions,
    GlobalOptions,
    OneToManyOptions,
    StreamGlobalOptions,
    StreamStreamOptions,
    StreamTableOptions,
    StreamWindowedOptions,
    TableTableOptions,
    TableWindowedOptions,
)
from rivermeet.pipelines.joins import GlobalGlobalJoin, How, Join, Operation, ValueExpr
from rivermeet.pipelines.operations import (
    Aggregation,
    Filter,
    MapValues,
    Merge,
    SelectKey,
    TableAggregate,
    ToStream,
    ToTable,
    WindowedAggregate,
)
from rivermeet.pipelines.reads.kafka import Format
from rivermeet.pipelines.shadow import Shadow, shadow
from rivermeet.pipelines.sink import TopicSink, Written, WrittenValue, topic_sink
from rivermeet.pipelines.source import Source
from rivermeet.pipelines.window import SlidingWindows, TimeWindows, duration_ms

if TYPE_CHECKING:
    from rivermeet.pipelines.pipeline import Pipeline

DEFAULT_PARTITIONS = 4
OF_ITS_TOPIC = 0
"""Number of partitions of a node that keeps those of the topic it comes from: only the broker knows how many."""
RESERVED = ("_timestamp", "_partition", "_offset")
"""Columns that a folded table adds to those of key and value."""
_N = TypeVar("_N", bound="Node")


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
        When a table is folded: ``"run"``, in each run with new records, or ``"due"``, when the records that it lacks
        are a tenth of it. None: ``"run"`` if no other node reads it, else ``"due"``.
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
        """The operation that computes this node, or None for a source."""
        return self.origin if isinstance(self.origin, Operation) else None

    @property
    def join_spec(self) -> Join | None:
        """The join that this node is the result of, or None."""
        made = self.operation
        return cast(Join, made) if made is not None and made.joins_sides else None

    @property
    def source(self) -> Source | None:
        """The source that this node is read from, or None for a computed one."""
        return self.origin if isinstance(self.origin, Source) else None

    @property
    def kind_in_words(self) -> str:
        """Its kind as messages name it, such as ``global table``."""
        return self.kind.replace("_", " ")

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
        """Write the changelog to a topic: a stream's rows as they are, a table's with null for a deleted row.

        Parameters
        ----------
        topic
            Name of the topic; it can be read by Kafka Streams as co-partitioned with any other topic of such keys.
        value
            Format of the values: `JSON` (default), or `Avro` or `Protobuf` with a schema that is derived from the
            node's columns and registered with the schema registry as subject ``TOPIC-value``.
        key
            Format of the keys. Default: `Text` of a key that is one STRING, else `JSON`.
        partitions
            The number with which a missing topic is created. Without it the topic has to exist.

        Examples
        --------
        >>> departures.to_topic("departures-by-flight", partitions=4).topic
        'departures-by-flight'
        """
        return self.pipeline.add_sink(topic_sink(self, topic, value, key, partitions))

    def shadowed_by(
        self, topic: str, group: str | None = None, value: Format | None = None, key: Format | None = None
    ) -> Shadow:
        """Compare the node with the output of a Kafka Streams application: missing and extra rows.

        Parameters
        ----------
        topic
            Name of the application's output topic.
        group
            The application's id. Without it the application's position is unknown.
        value
            Format of its values. Default: `JSON` with the node's value columns.
        key
            Format of its keys. Default: `Text` of a key that is one STRING, else `JSON`.

        Examples
        --------
        >>> late = departures.filter("delay > 15", "late")
        >>> late.shadowed_by("late-flights", group="late-app").group
        'late-app'
        """
        return self.pipeline.add_shadow(shadow(self, topic, group, value, key))

    def validate_columns(self, name: str, columns: Mapping[str, Any], *keys: Mapping[str, str]) -> None:
        """Refuse a value for ``name`` without columns, or with a column name that is already used."""
        taken = [*self.key, *(column for key in keys for column in key)]
        clash = [c for c in columns if c in taken or c in RESERVED]
        if not columns:
            raise self.refuse(name, "select has no columns; name at least one")
        if clash:
            raise self.refuse(
                name,
                f"select names {list_choices(clash)}, which the result has already (key columns {list_choices(taken)}, "
                f"and {list_choices(RESERVED)}); choose other names",
            )

    def refuse(self, name: str, problem: str) -> DeclarationError:
        """The error for a node ``name`` that cannot be derived from this one."""
        return DeclarationError(self.pipeline.name, name, problem)

    def _make(self, kind: type[_N], name: str, operation: Operation, value: Iterable[str], **fields: Any) -> _N:
        """A node computed from this one, with its key and partitions unless ``fields`` say otherwise."""
        fields = {"key": self.key, "partitions": self.partitions} | fields
        return self.pipeline.add(
            kind(pipeline=self.pipeline, name=name, value=tuple(value), origin=operation, **fields)
        )

    def _filter(self, where: str, name: str, **fields: Any) -> Self:
        return self._make(type(self), name, Filter(input=self, where=where), self.value, **fields)

    def _map(self, select: Mapping[str, ValueExpr], name: str, **fields: Any) -> Self:
        self.validate_columns(name, select)
        functions = [column for column, e in select.items() if not isinstance(e, str)]
        if functions:
            raise self.refuse(
                name,
                f"select gives {list_choices(functions)} as no SQL text; "
                "map_values takes SQL over key and value columns",
            )
        return self._make(type(self), name, MapValues(input=self, select=select), select, **fields)

    def _key_types(self, name: str, key: Mapping[str, Expr], value: Iterable[str]) -> dict[str, str]:
        """Column to type of a declared key, refused if a name is already used."""
        if not key or not isinstance(key, Mapping) or not all(isinstance(e, Expr) for e in key.values()):
            raise self.refuse(name, f"key={key!r} must give each key column as expr(sql, TYPE)")
        clash = [column for column in key if column in value or column in RESERVED]
        if clash:
            raise self.refuse(
                name, f"key names {list_choices(clash)}, which the result has already; choose other names"
            )
        return {column: e.type for column, e in key.items()}

    def _partitions(self, name: str, partitions: int | None) -> int:
        """The declared number of partitions, or else the node's own."""
        if partitions is not None and partitions < 1:
            raise self.refuse(name, f"partitions is {partitions}; give 1 or more")
        return partitions or self.partitions or DEFAULT_PARTITIONS

    def history_ms(self, name: str, history: str | int | None) -> int | None:
        """How long (ms) a versioned table keeps history; None if it is not versioned."""
        if history is None:
            return None
        kept = duration_ms(history)
        if kept < 0:
            raise self.refuse(name, f"history is {kept} ms; make it 0 or more")
        return kept


class Stream(Node):
    """A record stream: every record is an independent event."""

    kind = "stream"

    @overload
    def join(self, other: Stream, name: str | None = None, **options: Unpack[StreamStreamOptions]) -> Stream: ...
    @overload
    def join(self, other: Table, name: str | None = None, **options: Unpack[StreamTableOptions]) -> Stream: ...
    @overload
    def join(self, other: GlobalTable, name: str | None = None, **options: Unpack[StreamGlobalOptions]) -> Stream: ...
    def join(self, other: Node, name: str | None = None, **options: object) -> Stream:
        """Inner join: a row for each record that finds a partner.

        Parameters
        ----------
        other
            A stream, a table with the same key, or a global table or view.
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            Depending on the other side: `StreamStreamOptions`, `StreamTableOptions`, `StreamGlobalOptions`.

        Examples
        --------
        >>> flown = departures.join(
        ...     arrivals, "flown", window=JoinWindow(before=0, after="1d", grace="1h"),
        ...     select={"delay": "left.delay", "gate": "right.gate"})
        >>> flown.value
        ('delay', 'gate')
        >>> departures.join(planes_by_flight, "planned").join_spec.family
        'stream-table'
        >>> departures.join(airlines, "named", key="carrier", select={"airline": "right.name"}).join_spec.key
        {'carrier': 'carrier'}
        """
        return self._join("inner", other, name, options)

    @overload
    def left_join(self, other: Stream, name: str | None = None, **options: Unpack[StreamStreamOptions]) -> Stream: ...
    @overload
    def left_join(
        self, other: WindowedTable, name: str | None = None, **options: Unpack[StreamWindowedOptions]
    ) -> Stream: ...
    @overload
    def left_join(self, other: Table, name: str | None = None, **options: Unpack[StreamTableOptions]) -> Stream: ...
    @overload
    def left_join(
        self, other: GlobalTable, name: str | None = None, **options: Unpack[StreamGlobalOptions]
    ) -> Stream: ...
    def left_join(self, other: Node, name: str | None = None, **options: object) -> Stream:
        """Join that keeps left records without a partner.

        Parameters
        ----------
        other
            As for `join`, or a windowed table.
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            As for `join`; with a windowed table `StreamWindowedOptions`.

        Examples
        --------
        >>> on_time = departures.left_join(
        ...     delays_by_hour, "on_time", window_start="hour", select={"flights": "right.flights"})
        >>> on_time.join_spec.how
        'left'
        """
        return self._join("left", other, name, options)

    def outer_join(self, other: Stream, name: str | None = None, **options: Unpack[StreamStreamOptions]) -> Stream:
        """Join of two streams that keeps records of both without a partner.

        Parameters
        ----------
        other
            A stream.
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            `StreamStreamOptions`.

        Examples
        --------
        >>> departures.outer_join(
        ...     arrivals, "seen", window=JoinWindow("1h", "1d"), select={"gate": "right.gate"}).join_spec.window.grace
        0
        """
        return self._join("outer", other, name, options)

    def _join(self, how: How, other: Node, name: str | None, options: Any) -> Stream:
        name = name or f"{self.name}_{other.name}"
        if isinstance(other, Stream):
            spec: Join = joining.stream_stream(self, how, other, name, options)
        elif how == "outer":
            raise self.refuse(
                name,
                f"a stream and a {other.kind_in_words} have no outer join: only the stream's records cause rows, "
                "so nothing could report a row of the table that none looked up; choose join or left_join",
            )
        elif isinstance(other, GlobalTable):
            spec = joining.stream_global(self, how, other, name, options)
        elif isinstance(other, WindowedTable):
            spec = joining.stream_windowed(self, how, other, name, options)
        elif isinstance(other, Table):
            spec = joining.stream_table(self, how, other, name, options)
        else:
            raise self.refuse(name, f"a stream joins a stream, table or global table, and '{other.name}' is none")
        return self._make(Stream, name, spec, spec.select)

    def filter(self, where: str, name: str) -> Stream:
        """Only records for which the SQL over key and value columns is true.

        Examples
        --------
        >>> departures.filter("delay > 15", "late").value
        ('carrier', 'delay', 'hour')
        """
        return self._filter(where, name)

    def map_values(self, select: Mapping[str, ValueExpr], name: str) -> Stream:
        """Another value: output column to SQL over key and value columns. A null value stays null.

        Examples
        --------
        >>> departures.map_values({"hours": "delay / 60"}, "in_hours").value
        ('hours',)
        """
        return self._map(select, name)

    def select_key(self, key: Mapping[str, Expr], name: str, partitions: int | None = None) -> Stream:
        """Another key, and the records repartitioned by it.

        Parameters
        ----------
        key
            Key column to ``expr(sql, TYPE)`` over key and value columns.
        name
            Name of the result.
        partitions
            How many the new keys are hashed into; default: as many as this stream has.

        Examples
        --------
        >>> departures.select_key({"airline": expr("upper(carrier)", "STRING")}, "by_airline").key
        {'airline': 'STRING'}
        """
        kinds = self._key_types(name, key, self.value)
        count = self._partitions(name, partitions)
        spec = SelectKey(input=self, key=key, partitions=count)
        return self._make(Stream, name, spec, self.value, key=kinds, partitions=count)

    def merge(self, other: Stream, name: str) -> Stream:
        """The records of both streams, which have the same columns and partitions.

        Examples
        --------
        >>> late, early = departures.filter("delay > 0", "late"), departures.filter("delay <= 0", "early")
        >>> late.merge(early, "all_again").value
        ('carrier', 'delay', 'hour')
        """
        if not isinstance(other, Stream):
            raise self.refuse(
                name,
                f"a stream merges with a stream, and '{other.name}' is a {other.kind_in_words}; "
                "read it with to_stream()",
            )
        joining.validate_one_pipeline(self, other, name)
        if dict(self.key) != dict(other.key) or self.value != other.value or self.partitions != other.partitions:
            raise self.refuse(
                name,
                f"'{self.name}' has key {dict(self.key)}, value {list_choices(self.value)}, "
                f"{joining.count_partitions(self)}; "
                f"'{other.name}' has key {dict(other.key)}, value {list_choices(other.value)}, {other.partitions}: "
                "make them equal with map_values() and select_key()",
            )
        return self._make(Stream, name, Merge(left=self, right=other), self.value)

    def to_table(self, name: str, history: str | int | None = None, fold: str | None = None) -> Table:
        """The stream read as the changelog of a table.

        Parameters
        ----------
        name
            Name of the table.
        history
            Duration that makes it versioned, as in `Pipeline.table`.
        fold
            When it is folded, as in `Node`.

        Examples
        --------
        >>> departures.to_table("last_departure", history="1h").history
        3600000
        """
        kept = self.history_ms(name, history)
        return self._make(Table, name, ToTable(input=self), self.value, history=kept, fold=fold)

    def group_by_key(self) -> GroupedStream:
        """Records by their key, to be windowed and aggregated.

        Examples
        --------
        >>> departures.group_by_key().windowed_by(TimeWindows("1h")).aggregate({"flights": count()}, "hourly").key
        {'flight': 'STRING', 'window_start': 'BIGINT', 'window_end': 'BIGINT'}
        """
        return GroupedStream(self)

    def group_by(self, key: Mapping[str, Expr], name: str, partitions: int | None = None) -> GroupedStream:
        """Records by another key: `select_key` under ``name``, then `group_by_key`.

        Examples
        --------
        >>> by_carrier = departures.group_by({"airline": expr("carrier", "STRING")}, "by_carrier")
        >>> by_carrier.windowed_by(TimeWindows("1d")).aggregate({"flights": count()}, "daily").value
        ('flights',)
        """
        return self.select_key(key, name, partitions).group_by_key()


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Node):
    """A table: a record replaces the one of the same key, a tombstone removes it.

    ``history`` (ms) makes it versioned: look-ups see the value that a key had up to that long ago, and an update older
    than the key's current one is not forwarded.
    """

    history: int | None = None

    kind = "table"

    @overload
    def join(self, other: Table, name: str | None = None, **options: Unpack[TableTableOptions]) -> Table: ...
    @overload
    def join(self, other: Table, name: str | None = None, **options: Unpack[ForeignKeyOptions]) -> Table: ...
    def join(self, other: Node, name: str | None = None, **options: object) -> Table:
        """Inner join with a table of the same key, or on a foreign key.

        Parameters
        ----------
        other
            The other table; for a foreign key, the table that it refers to.
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            `TableTableOptions`, or with ``foreign_key`` `ForeignKeyOptions`.

        Examples
        --------
        >>> flights.join(planes_by_flight, "both").join_spec.family
        'table-table'
        >>> flights.join(planes, "flown_by", foreign_key="tail", select={"seats": "right.seats"}).join_spec.foreign_key
        {'tail_number': 'tail'}
        """
        return self._join("inner", other, name, options)

    @overload
    def left_join(
        self, other: WindowedTable, name: str | None = None, **options: Unpack[TableWindowedOptions]
    ) -> Table: ...
    @overload
    def left_join(self, other: Table, name: str | None = None, **options: Unpack[TableTableOptions]) -> Table: ...
    @overload
    def left_join(self, other: Table, name: str | None = None, **options: Unpack[ForeignKeyOptions]) -> Table: ...
    def left_join(self, other: Node, name: str | None = None, **options: object) -> Table:
        """Join that keeps left rows without a partner; parameters as for `join`.

        Parameters
        ----------
        other
            As for `join`, or a windowed table; each row picks a window.
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            As for `join`; with a windowed table `TableWindowedOptions`.

        Examples
        --------
        >>> flights.left_join(planes, "seats", foreign_key="tail", select={"seats": "right.seats"}, cache="epoch").value
        ('seats',)
        """
        return self._join("left", other, name, options)

    def outer_join(self, other: Table, name: str | None = None, **options: Unpack[TableTableOptions]) -> Table:
        """Join on the key that keeps rows of both sides; refused for foreign keys.

        Parameters
        ----------
        other
            A table of the same key.
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            `TableTableOptions`.

        Examples
        --------
        >>> flights.outer_join(planes_by_flight, "either").join_spec.how
        'outer'
        """
        return self._join("outer", other, name, options)

    def one_to_many_join(self, many: Table, name: str | None = None, **options: Unpack[OneToManyOptions]) -> Table:
        """Inner join with the rows of ``many`` that refer to this table; the result is keyed by both keys.

        Parameters
        ----------
        many
            The table whose rows refer to this one.
        name
            Name of the result; default ``ONE_MANY``.
        **options
            `OneToManyOptions`.

        Examples
        --------
        >>> planes.one_to_many_join(flights, "flown", foreign_key="tail", select={"seats": "left.seats"}).key
        {'tail_number': 'STRING', 'flight': 'STRING'}
        """
        name = name or f"{self.name}_{many.name}"
        if not isinstance(many, Table):
            raise self.refuse(
                name,
                f"a table is joined with the many rows of a table, and '{many.name}' is a {many.kind_in_words}; "
                "use table()",
            )
        spec = joining.one_to_many(self, many, name, options)
        key = {**self.key, **many.key}
        return self._make(Table, name, spec, spec.select, key=key, fold=options.get("fold"))

    def _join(self, how: How, other: Node, name: str | None, options: Any) -> Table:
        name = name or f"{self.name}_{other.name}"
        if not isinstance(other, Table):
            why = (
                "a stream keeps no rows for a table's update to look up"
                if other.kind == "stream"
                else "it never triggers"
            )
            raise self.refuse(
                name,
                f"a table joins a table, and '{other.name}' is a {other.kind_in_words}: {why}; "
                "start from the stream, or declare it with table()",
            )
        if isinstance(self, WindowedTable) and not isinstance(other, WindowedTable):
            spec: Join = joining.join_windowed_table(self, how, other, name, options)
        elif isinstance(other, WindowedTable) and not isinstance(self, WindowedTable):
            spec = joining.table_windowed(self, how, other, name, options)
        elif options.get("foreign_key") is not None:
            spec = joining.foreign_key(self, how, other, name, options)
        else:
            spec = joining.table_table(self, how, other, name, options)
        fold = options.get("fold")
        if isinstance(self, WindowedTable):
            return self._make(WindowedTable, name, spec, spec.select, windows=self.windows, fold=fold)
        return self._make(Table, name, spec, spec.select, fold=fold)

    def filter(self, where: str, name: str, fold: str | None = None) -> Self:
        """Only rows for which the SQL over key and value columns is true; ``fold`` as in `Node`.

        Examples
        --------
        >>> planes.filter("seats > 100", "large").kind
        'table'
        """
        return self._filter(where, name, fold=fold, **self._keep_fields())

    def map_values(self, select: Mapping[str, ValueExpr], name: str, fold: str | None = None) -> Self:
        """Another value: output column to SQL over key and value columns; ``fold`` as in `Node`.

        Examples
        --------
        >>> planes.map_values({"rows": "seats / 6"}, "seat_rows").value
        ('rows',)
        """
        return self._map(select, name, fold=fold, **self._keep_fields())

    def _keep_fields(self) -> dict[str, Any]:
        """The fields that a table of the same rows keeps."""
        # Without the history a join would treat a record that is older than its row as the row's update (KIP-914).
        return {"history": self.history}

    def to_stream(self, name: str) -> Stream:
        """The table's changelog read as a stream.

        Examples
        --------
        >>> planes.to_stream("changes_of_planes").kind
        'stream'
        """
        return self._make(Stream, name, ToStream(input=self), self.value)

    def group_by(self, key: Mapping[str, Expr]) -> GroupedTable:
        """Rows by another key, ``expr(sql, TYPE)`` per column, to be aggregated.

        Examples
        --------
        >>> by_seats = planes.group_by({"size": expr("seats div 100", "BIGINT")})
        >>> by_seats.aggregate({"planes": count()}, "planes_by_size").key
        {'size': 'BIGINT'}
        """
        return GroupedTable(self, key)


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowedTable(Table):
    """A table of windows: its key ends with ``window_start`` and ``window_end`` (ms, the end excluded).

    Only a windowed aggregate creates one. It joins a windowed table window by window (``window_map`` shifts them), and
    a table on the key without the window.
    """

    windows: TimeWindows | SlidingWindows

    kind = "windowed_table"

    def _keep_fields(self) -> dict[str, Any]:
        return {"windows": self.windows}


class GlobalTable(Node):
    """A table that every partition sees completely: looked up by any expression, never triggering."""

    kind = "global_table"

    def join(self, other: GlobalTable, name: str | None = None, **options: Unpack[GlobalOptions]) -> GlobalView:
        """A view of this table's rows that have a match in the other, with that match.

        Parameters
        ----------
        other
            A global table or view.
        name
            Name of the result; default ``LEFT_OTHER``.
        **options
            `GlobalOptions`.

        Examples
        --------
        >>> airlines.join(countries, "placed", key="country", select={"continent": "right.continent"}).is_stored
        False
        """
        return self._join("inner", other, name, options)

    def left_join(self, other: GlobalTable, name: str | None = None, **options: Unpack[GlobalOptions]) -> GlobalView:
        """A view of all of this table's rows, with their match in the other if there is one; parameters as for `join`.

        Examples
        --------
        >>> airlines.left_join(countries, "where", key="country", select={"continent": "right.continent"}).value
        ('continent',)
        """
        return self._join("left", other, name, options)

    def outer_join(self, other: GlobalTable, name: str | None = None, **options: Unpack[GlobalOptions]) -> GlobalView:
        """Refused: a right row that no left row refers to cannot be found.

        Examples
        --------
        >>> airlines.outer_join(countries, "all", key="country")
        Traceback (most recent call last):
        rivermeet.pipelines.errors.DeclarationError: pipeline 'air', node 'all': global tables have no outer join: …
        """
        return self._join("outer", other, name, options)

    def _join(self, how: How, other: Node, name: str | None, options: Any) -> GlobalView:
        name = name or f"{self.name}_{other.name}"
        if not isinstance(other, GlobalTable):
            raise self.refuse(
                name,
                f"a global table joins a global table, and '{other.name}' is a {other.kind_in_words}: a global "
                f"table's update never triggers; start from '{other.name}'",
            )
        spec = joining.global_global(self, how, other, name, options)
        return self._make(GlobalView, name, spec, spec.select)


class GlobalView(GlobalTable):
    """A join of two global tables, resolved when it is read; it is not stored."""

    kind = "global_view"

    @property
    def join_spec(self) -> GlobalGlobalJoin:
        """The join that is resolved."""
        return cast(GlobalGlobalJoin, self.origin)


@dataclass(frozen=True)
class GroupedTable:
    """A table's rows by another key."""

    table: Table
    key: Mapping[str, Expr]

    def aggregate(
        self,
        aggregations: Mapping[str, Aggregation],
        name: str,
        partitions: int | None = None,
        fold: str | None = None,
    ) -> Table:
        """Aggregate each group; a group that no longer has rows ends with a tombstone.

        Parameters
        ----------
        aggregations
            Output column to `count`, `total`, `minimum`, `maximum` or `average`.
        name
            Name of the result.
        partitions
            How many the new keys are hashed into; default: as many as the table has.
        fold
            When the result is folded, as in `Node`.

        Examples
        --------
        >>> by_seats = planes.group_by({"size": expr("seats div 100", "BIGINT")})
        >>> by_seats.aggregate({"planes": count(), "largest": maximum("seats")}, "sizes").value
        ('planes', 'largest')
        """
        table = self.table
        kinds = table._key_types(name, self.key, aggregations)
        table.validate_columns(name, aggregations)
        count = table._partitions(name, partitions)
        spec = TableAggregate(input=table, key=self.key, aggregations=aggregations, partitions=count)
        return table._make(Table, name, spec, aggregations, key=kinds, partitions=count, fold=fold)


@dataclass(frozen=True)
class GroupedStream:
    """A stream's records by their key."""

    stream: Stream

    def windowed_by(self, windows: TimeWindows | SlidingWindows) -> WindowedStream:
        """Records by key and window.

        Examples
        --------
        >>> departures.group_by_key().windowed_by(SlidingWindows("10m")).windows.difference
        600000
        """
        return WindowedStream(self.stream, windows)


@dataclass(frozen=True)
class WindowedStream:
    """A stream's records by key and window."""

    stream: Stream
    windows: TimeWindows | SlidingWindows

    def aggregate(self, aggregations: Mapping[str, Aggregation], name: str, fold: str | None = None) -> WindowedTable:
        """Aggregate each key and window; parameters as for `GroupedTable.aggregate`.

        Examples
        --------
        >>> hours = departures.group_by_key().windowed_by(TimeWindows("1h"))
        >>> hours.aggregate({"flights": count(), "delay": average("delay")}, "by_hour").value
        ('flights', 'delay')
        """
        stream = self.stream
        stream.validate_columns(name, aggregations)
        clash = [column for column in WINDOW_KEY if column in stream.key or column in aggregations]
        if clash:
            raise stream.refuse(name, f"{list_choices(clash)} is what the windows are called; rename the column")
        spec = WindowedAggregate(input=stream, windows=self.windows, aggregations=aggregations)
        key = {**stream.key, **WINDOW_KEY}
        return stream._make(WindowedTable, name, spec, aggregations, key=key, windows=self.windows, fold=fold)
