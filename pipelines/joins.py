"""The operation that computes a node: one frozen value per join family, and what all families share.

The modules of a family are named in the ``family.py`` of its folder in ``joins``. Operations on one input are in
``pipelines/operations.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from rivermeet.pipelines.errors import OptionError
from rivermeet.pipelines.expressions import quote
from rivermeet.pipelines.window import JoinWindow, duration_text

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import GlobalTable, Node, Stream, Table

How = Literal["inner", "left", "outer"]
Semantics = Literal["3.1", "0.10.2", "0.10.0", "kafka-4"]
Bootstrap = Literal["epoch", "timestamp"]
Cache = Literal["epoch"]

ValueExpr = str | Callable[[Any, Any], Any]
"""SQL over ``left.*`` and ``right.*``, or a function of the two Spark columns."""


class Operation:
    """The operation that computes a node's records, with the properties that other code needs of its family.

    A family consists of its declaration, with these properties, and its value, which names its modules
    (``pipelines/family.py``). No other code tests for the class of an operation: differences are properties of
    the operation or of its family (``tests/project/test_families.py``).

    Attributes
    ----------
    family
        Name of its kind, as used by checks and tags, and under which its `pipelines.family.Family` is registered.
    profiles
        Releases that offered it.
    triggers
        Sides whose records cause rows.
    co_partitioned
        Whether equal keys of both sides are in equal partitions, so that each partition has its own order.
    joins_sides
        Whether ``select`` is over ``left.*`` and ``right.*``, and not over the bare columns of one input.
    keeps_values
        Whether rows have the value columns of their input.
    meets_many
        Whether one record may cause several rows of one key.
    select
        Output column to its expression, if rows are computed from columns.
    max_task_idle_ms
        How long a record waits while another input may still send earlier ones: 0 not at all, None for ever.
    """

    family: ClassVar[str] = "operation"
    profiles: ClassVar[tuple[Semantics, ...]] = ("3.1",)
    triggers: ClassVar[tuple[str, ...]] = ("left",)
    co_partitioned: ClassVar[bool] = True
    joins_sides: ClassVar[bool] = False
    keeps_values: ClassVar[bool] = False
    meets_many: ClassVar[bool] = False
    semantics: Semantics = "3.1"
    select: Mapping[str, ValueExpr]
    max_task_idle_ms: int | None = 0

    @property
    def by_partition(self) -> tuple[str, ...]:
        """Sides that are read by partition: of all others, a partition's rows may need every record."""
        return tuple(self.inputs) if self.co_partitioned else ()

    @property
    def type(self) -> str | None:
        """Inner, left or outer; None if it is not a join."""
        return None

    @property
    def table_first(self) -> bool:
        """Whether an epoch's records of a table go before its other records."""
        return False

    @property
    def open_ms(self) -> int | None:
        """How long (ms) after its timestamp a record can still matter; None where the family has no windows."""
        return None

    @property
    def wait_ms(self) -> int:
        """The longest (ms) that a row may wait for its window to close."""
        return 0

    @property
    def delays_rows(self) -> bool:
        """Whether a row's trigger is the record that releases it, and not one that it is computed from."""
        return False

    @property
    def is_self_join(self) -> bool:
        """Whether both sides are one stream, so that each record comes twice."""
        return False

    @property
    def undroppable(self) -> str | None:
        """Why an epoch's rows may not be dropped, if later rows depend on them."""
        return None

    @property
    def detail(self) -> str:
        """Text that a sentence about the operation adds to its type and inputs."""
        return ""

    @property
    def description(self) -> str:
        """Sentences that say what it does."""
        names = " and ".join(f"{node.kind_in_words} `{node.name}`" for node in self.inputs.values())
        if self.type is None:
            return f"{self.family.replace('-', ' ').capitalize()} of {names}{self.detail}."
        return f"{self.type.capitalize()} join of {names}{self.detail}. Semantics {self.semantics}."

    def keeps_hashes_of(self, side: str) -> bool:
        """Whether the operator keeps hashes of a side's values from epoch to epoch, which change with their types."""
        return False

    def find_lacking(self, profile: str) -> str | None:
        """A variant that this profile lacks although it offers the family, if this operation is one."""
        return None

    def reads_history(self, side: str) -> bool:
        """Whether all records of a side are read, and not only its newest rows."""
        return False

    def expression(self, column: str) -> str | None:
        """The SQL that computes a column, empty if a function does; None if an input's column is copied."""
        if column not in self.select:
            return None
        made = self.select[column]
        return made if isinstance(made, str) else ""

    def with_grace(self, grace: int) -> Operation:
        """The operation with another grace (ms) of its windows; ValueError if it has none."""
        raise OptionError(f"a {self.family} has no windows, and no grace that could be longer")

    def over_all_epochs(self) -> Operation:
        """The operation that gives the rows of all epochs when it runs over their records in order."""
        return self

    @property
    def inputs(self) -> Mapping[str, Node]:
        """Side to input node; an operation on one input has only ``left``."""
        raise NotImplementedError

    @property
    def stored_inputs(self) -> Mapping[str, Node]:
        """Side to input node as plans name them; a view stands for the tables it is resolved from (``right.left``)."""
        found: dict[str, Node] = {}
        for side, node in self.inputs.items():
            if node.is_stored or node.operation is None:
                found[side] = node
            else:
                found |= {f"{side}.{part}": stored for part, stored in node.operation.stored_inputs.items()}
        return found


@dataclass(frozen=True, kw_only=True)
class Join(Operation):
    """What all joins share. ``select`` maps an output column to its expression.

    ``max_task_idle_ms`` is how long a record waits while the other input may still send earlier ones: 0 not at all,
    None for ever. ``keyed_by_both`` is whether a row's key has the columns of both keys.
    """

    how: How
    left: Node
    right: Node
    select: Mapping[str, ValueExpr]
    semantics: Semantics = "3.1"
    max_task_idle_ms: int | None = 0

    keyed_by_both: ClassVar[bool] = False
    triggers = ("left", "right")
    joins_sides = True

    @property
    def type(self) -> str | None:
        """Inner, left or outer."""
        return self.how

    @property
    def inputs(self) -> Mapping[str, Node]:
        """Both sides."""
        return {"left": self.left, "right": self.right}

    @property
    def by_partition(self) -> tuple[str, ...]:
        """A row lies in its left record's partition; a wait across partitions is for records of all of them."""
        if self.co_partitioned:
            return ("left", "right")
        return () if self.max_task_idle_ms != 0 else ("left",)


@dataclass(frozen=True, kw_only=True)
class StreamStreamJoin(Join):
    """stream ⋈ stream within a window.

    ``eager`` keeps the old windows' behaviour in profile ``"kafka-4"``: one-sided rows are emitted immediately.
    ``optimized`` is that profile's self-join operator.
    """

    left: Stream
    right: Stream
    window: JoinWindow
    eager: bool = False
    optimized: bool = False

    family = "stream-stream"
    profiles = get_args(Semantics)
    meets_many = True

    @property
    def open_ms(self) -> int | None:
        """Until its window and grace have passed."""
        return max(self.window.before, self.window.after) + self.window.grace

    @property
    def wait_ms(self) -> int:
        """A one-sided row waits for its window and grace."""
        return max(self.window.before, self.window.after, 0) + self.window.grace

    @property
    def is_self_join(self) -> bool:
        """Whether a stream is joined with itself."""
        return self.left is self.right

    @property
    def undroppable(self) -> str | None:
        """Its own rows show which records have found a partner."""
        if self.how == "inner" or self.semantics != "3.1":
            return None
        return (
            f"is a {self.how} join of streams: it knows by its own rows which records have found a partner, and "
            "without some of them those records leave alone, too"
        )

    @property
    def detail(self) -> str:
        """The window."""
        window = self.window
        before, after, grace = (duration_text(ms) for ms in (window.before, window.after, window.grace))
        return f" within a window of {before} before and {after} after, with {grace} of grace"

    def with_grace(self, grace: int) -> StreamStreamJoin:
        """The join with another grace of its window."""
        return replace(self, window=replace(self.window, grace=grace))


@dataclass(frozen=True, kw_only=True)
class StreamTableJoin(Join):
    """stream ⋈ table: right key column to an expression over the left record, the stream's own key by default.

    ``grace`` (ms) buffers stream records so that the versioned table on the right can still receive updates for their
    time.
    """

    left: Stream
    right: Table
    key: Mapping[str, str]
    grace: int | None = None

    triggers = ("left",)
    family = "stream-table"
    profiles = get_args(Semantics)

    @property
    def by_partition(self) -> tuple[str, ...]:
        """The table's row lies beside the record only where that is looked up by its own key."""
        own = all(self.key.get(column) == quote(column) for column in self.left.key)
        return ("left", "right") if own else ("left",)

    @property
    def wait_ms(self) -> int:
        """A record waits for the grace of a versioned table."""
        return self.grace or 0

    @property
    def delays_rows(self) -> bool:
        """Whether records wait for the grace."""
        return self.grace is not None

    def reads_history(self, side: str) -> bool:
        """A versioned table is looked up as of the record's time."""
        return side == "right" and self.right.history is not None

    def find_lacking(self, profile: str) -> str | None:
        """The first release had no inner join."""
        return "inner stream-table join" if profile == "0.10.0" and self.how == "inner" else None


@dataclass(frozen=True, kw_only=True)
class StreamGlobalJoin(Join):
    """stream ⋈ global table, looked up by ``key``: right key column to an expression over the left record."""

    left: Stream
    right: GlobalTable
    key: Mapping[str, str]
    bootstrap: Bootstrap = "epoch"

    triggers = ("left",)
    family = "stream-globaltable"
    profiles = ("3.1", "0.10.2", "kafka-4")
    co_partitioned = False

    @property
    def table_first(self) -> bool:
        """Whether an epoch's updates of the table are loaded before its facts."""
        return self.bootstrap == "epoch"

    @property
    def detail(self) -> str:
        """The key mapper."""
        return ", looked up by " + ", ".join(f"`{sql}`" for sql in self.key.values())

    def over_all_epochs(self) -> StreamGlobalJoin:
        """Loading the table at the start of each epoch is, over all epochs, interleaving it by epoch."""
        return replace(self, bootstrap="timestamp")


@dataclass(frozen=True, kw_only=True)
class TableTableJoin(Join):
    """table ⋈ table on the key.

    ``cache="epoch"`` emits the net change per key and epoch; in profile ``"kafka-4"`` it caches the inputs, and the
    result if that is ``materialized``. ``window_map`` (ms) joins a windowed left row with the
    right row whose window starts that much later (negative: earlier).
    """

    left: Table
    right: Table
    cache: Cache | None = None
    materialized: bool = False
    window_map: int | None = None

    family = "table-table"
    profiles = get_args(Semantics)


@dataclass(frozen=True, kw_only=True)
class ForeignKeyJoin(Join):
    """table ⋈ table, ``foreign_key``: right key column to an expression over the left record."""

    left: Table
    right: Table
    foreign_key: Mapping[str, str]
    cache: Cache | None = None
    materialized: bool = False

    family = "fk-table-table"
    profiles = ("3.1", "0.10.2", "kafka-4")
    co_partitioned = False

    def keeps_hashes_of(self, side: str) -> bool:
        """Subscriptions of profile "0.10.2" contain the hash of the left value."""
        return side == "left" and self.semantics == "0.10.2"

    @property
    def detail(self) -> str:
        """The foreign-key extractor."""
        return " on " + ", ".join(f"`{sql}` → `{column}`" for column, sql in self.foreign_key.items())


@dataclass(frozen=True, kw_only=True)
class OneToManyJoin(Join):
    """table ⋈ the many rows of another table that refer to it; keyed by both keys.

    ``foreign_key``: left key column to an expression over the right record.
    """

    left: Table
    right: Table
    foreign_key: Mapping[str, str]
    cache: Cache | None = None

    family = "one-to-many"
    co_partitioned = False
    keyed_by_both = True


@dataclass(frozen=True, kw_only=True)
class GlobalGlobalJoin(Join):
    """global table ⋈ global table: a view, resolved when it is read. ``key`` as in `StreamGlobalJoin`."""

    left: GlobalTable
    right: GlobalTable
    key: Mapping[str, str]

    triggers = ()
    family = "global-global"
