"""The builder: a pipeline collects its nodes in the order they are declared, inputs before results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypedDict, TypeVar, Unpack

from rivermeet.pipelines.check import Check, Severity, validate_check
from rivermeet.pipelines.errors import DeclarationError, NotFoundError, OptionError, list_choices
from rivermeet.pipelines.expressions import Expr, quote
from rivermeet.pipelines.nodes import DEFAULT_PARTITIONS, OF_ITS_TOPIC, RESERVED, GlobalTable, Node, Stream, Table
from rivermeet.pipelines.reads.reads import Reads, refuse_alike
from rivermeet.pipelines.shadow import Shadow
from rivermeet.pipelines.sink import TopicSink
from rivermeet.pipelines.source import DuplicateFiles, Source
from rivermeet.pipelines.sql_text import find_unrepeatable
from rivermeet.pipelines.types import has_map, normalize_type
from rivermeet.pipelines.window import duration_ms

SHORTEST_FRESHNESS = 60_000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_N = TypeVar("_N", bound=Node)
Columns = Sequence[str] | Mapping[str, str | Expr]
Refuse = Callable[[str], DeclarationError]


class SourceOptions(TypedDict, total=False):
    """How rows of files, or a topic's, become records.

    Attributes
    ----------
    key, value
        Columns of what is read, or record column to expression (`expr` where it is not a column). Default key: that
        of a topic or a table of PostgreSQL; others have none. Default value: all other columns of the schema, of a
        topic those of its value.
    timestamp
        SQL giving event time: TIMESTAMP, or BIGINT epoch millis; or ``expr(sql, TYPE)``, which says which of them.
        Default: that of a topic's record, or of a commit; files have none.
    time_zone
        Zone of that clock, and of TIMESTAMP columns that are keys or values, where they have no offset: a name, or
        ``expr(sql, "STRING")`` giving it per row.
    where
        SQL; rows for which it is not true are not records of this source. A topic's record without a value, for which
        it is null, is a record.
    tombstone
        SQL; where it is true the record's value is null, as it is of a topic's record without a value.
    max_bad_share
        Share of an epoch's rows that may be bad before the epoch is refused (default 0.01).
    not_before, not_after
        Bounds of event time: ISO date or timestamp in UTC. Default of ``not_before``: 1970-01-01, because Kafka has no
        negative timestamps; None removes it.
    max_ahead
        Duration that event time may be after the modification time of the record's file, or the timestamp that Kafka
        has of it, such as ``"1d"``.
    duplicate_files
        ``"dead_letter"`` (default): a file with the same bytes as an earlier one is not read; ``"read"``: it is.
    description
        Markdown shown with the asset.
    fold
        When the table is folded: ``"run"``, in each run with new records, or ``"due"``, when the records that it lacks
        are a tenth of it. Default: ``"run"`` if no other node reads it, else ``"due"``.
    """

    key: Columns
    timestamp: str | Expr
    value: Columns | None
    time_zone: str | Expr
    where: str | None
    tombstone: str | None
    max_bad_share: float
    not_before: str | None
    not_after: str | None
    max_ahead: str | int | None
    duplicate_files: DuplicateFiles
    description: str
    fold: str | None


FOLDS = ("run", "due", None)
_OPTIONS = tuple(SourceOptions.__annotations__)
_OF_SOURCES = {field.name for field in fields(Source)} - {"reads", "key", "value", "timestamp"}
"""Options that a `Source` has by the same name."""


class Pipeline:
    """Sources, joins and their names; the counterpart of Kafka Streams' ``StreamsBuilder``.

    Parameters
    ----------
    name
        Letters, digits and ``_``.
    description
        Markdown shown with the pipeline's job.
    freshness
        Duration within which its sources are expected to have new records; for a join, window and grace are added.
        After a longer time without an epoch, a node is shown as stale. Default: two ticks of the schedule.
    group, owners, tags, key_prefix
        Of all its assets in Dagster: their group (default: the pipeline's name), owners (``team:shop`` or
        an address), tags, and the prefix of their keys before the pipeline's name.

    Examples
    --------
    >>> shop = Pipeline("shop")
    >>> orders = shop.table(
    ...     "orders", Files("orders/*.csv", "csv", {"id": "STRING", "customer": "STRING", "at": "BIGINT"}),
    ...     key=["id"], timestamp="at")
    >>> customers = shop.table(
    ...     "customers", Files("customers/*.csv", "csv", {"id": "STRING", "name": "STRING", "at": "BIGINT"}),
    ...     key=["id"], timestamp="at", value=["name"])
    >>> named = orders.left_join(customers, "named", foreign_key="customer", select={"who": "right.name"})
    >>> [node.name for node in shop.nodes]
    ['orders', 'customers', 'named']
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        freshness: str | int = "30m",
        *,
        group: str | None = None,
        owners: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        key_prefix: Sequence[str] = (),
    ) -> None:
        if not _NAME.fullmatch(name):
            raise OptionError(f"pipeline name {name!r}: use letters, digits and _, a letter first")
        for what, part in (("group", group or name), *(("key_prefix", part) for part in _several(name, key_prefix))):
            if not _NAME.fullmatch(part):
                raise OptionError(f"pipeline '{name}': {what} has {part!r}; use letters, digits and _, a letter first")
        self.name = name
        self.description = description
        self.group = group or name
        self.owners = _several(name, owners)
        self.tags = dict(tags or {})
        self.key_prefix = _several(name, key_prefix)
        self.freshness = duration_ms(freshness)
        if self.freshness < SHORTEST_FRESHNESS:
            raise OptionError(f"pipeline '{name}': freshness is {self.freshness} ms; make it '1m' or more")
        self._nodes: dict[str, Node] = {}
        self._checks: dict[str, tuple[Check, ...]] = {}
        self._sinks: dict[str, TopicSink] = {}
        self._shadows: dict[str, Shadow] = {}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, every input before the nodes that read it."""
        return tuple(self._nodes.values())

    @property
    def stored(self) -> tuple[Node, ...]:
        """All nodes that have a changelog: all but views."""
        return tuple(node for node in self.nodes if node.is_stored)

    def downstream(self, nodes: Iterable[Node]) -> list[Node]:
        """Stored nodes: these and all that is made of them, inputs first."""
        names = {node.name for node in nodes}
        for node in self.nodes:
            if node.operation is not None and not names.isdisjoint(one.name for one in node.operation.inputs.values()):
                names.add(node.name)
        return [node for node in self.stored if node.name in names]

    @property
    def sinks(self) -> tuple[TopicSink, ...]:
        """All topics that nodes are written to."""
        return tuple(self._sinks.values())

    def sinks_of(self, node: Node) -> tuple[TopicSink, ...]:
        """Those of one node."""
        return tuple(sink for sink in self.sinks if sink.node is node)

    @property
    def shadows(self) -> tuple[Shadow, ...]:
        """All topics of applications that nodes are compared with."""
        return tuple(self._shadows.values())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The pipeline as a picture in a notebook, and as text elsewhere."""
        from rivermeet.pipelines.graph import mermaid, svg

        return {"image/svg+xml": svg(self), "text/plain": mermaid(self)}

    def node(self, name: str) -> Node:
        """The node of that name; KeyError with the choices if there is none."""
        if name not in self._nodes:
            raise NotFoundError(f"pipeline '{self.name}' has no '{name}'; it has {list_choices(self._nodes)}")
        return self._nodes[name]

    def stream(
        self, name: str, reads: Reads, *, partitions: int | None = None, **options: Unpack[SourceOptions]
    ) -> Stream:
        """Declare a stream over files, a topic, a Delta table or a table of PostgreSQL.

        Parameters
        ----------
        name
            Name in the pipeline; also the folder of its changelog.
        reads
            Where the rows are and what they look like.
        partitions
            How many partitions the keys are hashed into; default for files: 4. Without it, a topic's records stay in
            the topic's partitions.
        **options
            See `SourceOptions`.

        Examples
        --------
        >>> clicks = air.stream("clicks", Kafka("clicks", value=JSON({"page": "STRING"}), key=Text("visitor")))
        >>> clicks.key, clicks.value
        ({'visitor': 'STRING'}, ('page',))
        """
        return self._declare(Stream, name, reads, partitions, options)

    def table(
        self,
        name: str,
        reads: Reads,
        *,
        partitions: int | None = None,
        history: str | int | None = None,
        **options: Unpack[SourceOptions],
    ) -> Table:
        """Declare a table over what `stream` reads; parameters as for it.

        Parameters
        ----------
        history
            A duration: the table is versioned, and look-ups see the value that a key had up to that long before the
            newest timestamp of its partition.

        Examples
        --------
        >>> fares = Files("fares/*.csv", "csv", {"route": "STRING", "fare": "DOUBLE", "at": "TIMESTAMP"})
        >>> air.table("fares", fares, key=["route"], timestamp="at", time_zone="Europe/Paris", history="7d").history
        604800000
        """
        table = self._declare(Table, name, reads, partitions, options, add=False)
        return self.add(replace(table, history=table.history_ms(name, history)))

    def global_table(self, name: str, reads: Reads, **options: Unpack[SourceOptions]) -> GlobalTable:
        """Declare a global table over what `stream` reads, with its parameters, in one partition.

        Examples
        --------
        >>> ports = Files("ports.csv", "csv", {"code": "STRING", "name": "STRING", "at": "BIGINT"})
        >>> air.global_table("ports", ports, key=["code"], timestamp="at").partitions
        1
        """
        return self._declare(GlobalTable, name, reads, 1, options)

    def add(self, node: _N) -> _N:
        """Add a node that was declared on another one."""
        if not _NAME.fullmatch(node.name):
            raise node.refuse(node.name, "a name is letters, digits and _, a letter first")
        if node.name in self._nodes:
            raise node.refuse(node.name, f"declared twice; taken names are {list_choices(self._nodes)}")
        if node.fold not in FOLDS or (node.fold is not None and not node.is_table):
            why = f"fold is {node.fold!r}; give 'run', 'due' or None" if node.is_table else "a stream is not folded"
            raise node.refuse(node.name, why)
        try:
            refuse_alike([*node.key, *node.value], "its result")
        except ValueError as error:
            raise node.refuse(node.name, str(error)) from None
        inputs = node.operation.inputs.values() if node.operation else ()
        columns = node.source.reads.schema if node.source else [c for n in inputs for c in (*n.key, *n.value)]
        problem = find_unrepeatable(node.origin, columns)
        if problem is not None:
            raise node.refuse(node.name, problem)
        for column, kind in node.key.items():
            if has_map(kind):
                raise node.refuse(
                    node.name,
                    f"key column '{column}' is {kind}, and a MAP is no key: two with the same entries may be unequal; "
                    "take one of its values, or sort_array(map_entries(column)) as an ARRAY",
                )
        self._nodes[node.name] = node
        return node

    def _validate_own(self, node: Node, about: str = "") -> None:
        """Refuse a node of another pipeline."""
        if self._nodes.get(node.name) is not node:
            there = list_choices(self._nodes)
            raise DeclarationError(self.name, node.name, f"{about}is no node of this pipeline; there are {there}")

    def add_sink(self, sink: TopicSink) -> TopicSink:
        """Add a topic that one of the nodes is written to."""
        node = sink.node
        self._validate_own(node)
        if sink.topic in self._sinks:
            other = self._sinks[sink.topic].node.name
            raise node.refuse(node.name, f"topic {sink.topic!r} is written by '{other}' already; name another")
        self._sinks[sink.topic] = sink
        return sink

    def add_shadow(self, shadow: Shadow) -> Shadow:
        """Add a topic of an application that one of the nodes is compared with."""
        node = shadow.node
        self._validate_own(node)
        if shadow.topic in self._shadows:
            other = self._shadows[shadow.topic].node.name
            raise node.refuse(
                node.name, f"topic {shadow.topic!r} is compared with '{other}' already; it has one answer"
            )
        self._shadows[shadow.topic] = shadow
        return shadow

    def check(
        self,
        node: Node,
        id: str,
        sentence: str,
        violations: str,
        *,
        severity: Severity = "warning",
        blocking: bool = False,
    ) -> Check:
        """Declare a rule about a node's rows; it is judged and shown like the built-in ones.

        Parameters
        ----------
        id
            Its name among the node's checks.
        sentence
            What holds, in words.
        violations
            SQL over ``{rows}``, ``{changelog}`` or ``{table}`` that returns what breaks the rule
            (``pipelines/check.py``).
        blocking
            Whether a violation keeps an epoch from being committed; only of rules about ``{rows}``.

        Examples
        --------
        >>> air.check(
        ...     departures, "delay_is_known", "Each departure has a delay.",
        ...     "SELECT * FROM {rows} WHERE value.delay IS NULL").severity
        'warning'
        """
        self._validate_own(node, f"check {id!r}: '{node.name}' ")
        rule = validate_check(node, Check(node.name, id, sentence, violations, severity, blocking))
        others = self.checks_of(node)
        if any(other.id == id for other in others):
            ids = list_choices(other.id for other in others)
            raise node.refuse(node.name, f"check {id!r} is declared twice; there are {ids}")
        self._checks[node.name] = (*others, rule)
        return rule

    def checks_of(self, node: Node) -> tuple[Check, ...]:
        """The rules that were declared about a node."""
        return self._checks.get(node.name, ())

    def _declare(
        self,
        kind: type[_N],
        name: str,
        reads: Reads,
        partitions: int | None,
        options: SourceOptions,
        add: bool = True,
    ) -> _N:
        def refuse(problem: str) -> DeclarationError:
            return DeclarationError(self.name, name, problem)

        if partitions is not None and partitions < 1:
            raise refuse(f"partitions is {partitions}; give 1 or more")
        try:
            source = _declare_source(refuse, reads, options, is_table=issubclass(kind, Table | GlobalTable))
        except DeclarationError:
            raise
        except ValueError as error:
            raise refuse(str(error)) from None
        if partitions is None and reads.keeps_partitions:
            # Equal keys may be in several of the topic's partitions if they are others than the topic's.
            own = reads.key_columns
            if sorted(e.sql for e in source.key.values()) != sorted(quote(column) for column in own):
                raise refuse(
                    f"key {list_choices(source.key)} is not the key of {reads.label} ({list_choices(own)}), "
                    "so that equal keys may lie in several of its partitions; give partitions=N to rehash them"
                )
            partitions = OF_ITS_TOPIC
        node = kind(
            pipeline=self,
            name=name,
            key={column: e.type for column, e in source.key.items()},
            value=tuple(source.value),
            partitions=DEFAULT_PARTITIONS if partitions is None else partitions,
            origin=source,
            description=options.get("description", ""),
            fold=options.get("fold"),
        )
        return self.add(node) if add else node


def _declare_source(refuse: Refuse, reads: Reads, options: Mapping[str, Any], is_table: bool) -> Source:
    """The validated source with the declared options, and the defaults of what it reads."""
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise refuse(f"no option {list_choices(unknown)}; there are {list_choices(_OPTIONS)}")
    options = reads.options(options, is_table)
    for column, kind in reads.schema.items():
        try:
            normalize_type(kind)
        except ValueError as error:
            raise refuse(f"column '{column}': {error}") from None
    lacking = [option for option in ("key", "timestamp") if option not in options]
    if lacking:
        raise refuse(f"a source of {reads.what} needs {list_choices(lacking)}")
    keys = _name_columns(refuse, "key", reads, options["key"])
    value = options.get("value")
    if value is None:
        used = {e.sql for e in keys.values()}
        value = [c for c in reads.value_columns if c not in keys and quote(c) not in used]
    values = _name_columns(refuse, "value", reads, value)
    clash = [c for c in values if c in keys] + [c for c in (*keys, *values) if c in RESERVED]
    if clash:
        raise refuse(f"column {list_choices(clash)} is both key and value, or reserved; rename it")
    timestamp = options["timestamp"]
    if not isinstance(timestamp, str | Expr):
        raise refuse(f"timestamp is {timestamp!r}; give SQL, or expr(SQL, TYPE)")
    sql, kind = (timestamp.sql, timestamp.type) if isinstance(timestamp, Expr) else (timestamp, None)
    others = {option: given for option, given in options.items() if option in _OF_SOURCES}
    return Source(reads, keys, values, sql, timestamp_type=kind, **others)


def _name_columns(refuse: Refuse, what: str, reads: Reads, given: Columns) -> dict[str, Expr]:
    columns: dict[str, Expr] = {}
    for column, sql in given.items() if isinstance(given, Mapping) else [(c, c) for c in given]:
        if isinstance(sql, Expr):
            columns[column] = sql
        elif sql in reads.schema:
            columns[column] = Expr(quote(sql), normalize_type(reads.schema[sql]))
        else:
            raise refuse(
                f"{what} column '{column}' is {sql!r}, which is no column of the source "
                f"({list_choices(reads.schema)}); write expr({sql!r}, TYPE) for an expression"
            )
    if not columns:
        raise refuse(f"it has no {what}: name at least one column")
    return columns


def _several(pipeline: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise OptionError(f"pipeline '{pipeline}': {given!r} is one text; give a list, [{given!r}]")
    return tuple(given)
