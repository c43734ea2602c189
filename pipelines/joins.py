"""What a node is computed by: one frozen value per join family, and what all families share.

How a family computes its rows is in the package ``joins``, one file each, found by the class and profile of these
values. Operations on one input stand in ``pipelines/operations.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pipelines.window import JoinWindow

if TYPE_CHECKING:
    from pipelines.nodes import GlobalTable, Node, Stream, Table

How = Literal["inner", "left", "outer"]
Semantics = Literal["3.1", "0.10.2", "0.10.0", "kafka-4"]
Bootstrap = Literal["epoch", "timestamp"]
Cache = Literal["epoch"]

ValueExpr = str | Callable[[Any, Any], Any]
"""SQL over ``left.*`` and ``right.*``, or a function of the two Spark columns."""


class Operation:
    """What the records of a node are computed by.

    Attributes
    ----------
    family
        Name of its kind, as checks and tags have it.
    triggers
        Sides whose records cause rows.
    select
        Output column to its expression, where rows are made of columns.
    """

    family: ClassVar[str] = "operation"
    triggers: ClassVar[tuple[str, ...]] = ("left",)
    semantics: Semantics = "3.1"
    select: Mapping[str, ValueExpr]

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
    None for ever.
    """

    how: How
    left: Node
    right: Node
    select: Mapping[str, ValueExpr]
    semantics: Semantics = "3.1"
    max_task_idle_ms: int | None = 0

    triggers = ("left", "right")

    @property
    def inputs(self) -> Mapping[str, Node]:
        """Both sides."""
        return {"left": self.left, "right": self.right}


@dataclass(frozen=True, kw_only=True)
class StreamStreamJoin(Join):
    """stream ⋈ stream within a window.

    ``eager`` keeps the old windows' behaviour in profile ``"kafka-4"``: one-sided rows leave at once. ``optimized``
    is that profile's self-join operator.
    """

    left: Stream
    right: Stream
    window: JoinWindow
    eager: bool = False
    optimized: bool = False

    family = "stream-stream"


@dataclass(frozen=True, kw_only=True)
class StreamTableJoin(Join):
    """stream ⋈ table: right key column to an expression over the left record, the stream's own key by default.

    ``grace`` (ms) buffers stream records so that the versioned table on the right may still be told what it was.
    """

    left: Stream
    right: Table
    key: Mapping[str, str]
    grace: int | None = None

    triggers = ("left",)
    family = "stream-table"


@dataclass(frozen=True, kw_only=True)
class StreamGlobalJoin(Join):
    """stream ⋈ global table, looked up by ``key``: right key column to an expression over the left record."""

    left: Stream
    right: GlobalTable
    key: Mapping[str, str]
    bootstrap: Bootstrap = "epoch"

    triggers = ("left",)
    family = "stream-globaltable"


@dataclass(frozen=True, kw_only=True)
class TableTableJoin(Join):
    """table ⋈ table on the key.

    ``cache="epoch"`` emits the net change per key and epoch; in profile ``"kafka-4"`` it caches the inputs, and the
    result where that is ``materialized``. ``window_map`` (ms) joins a windowed left row with the
    right row whose window starts so much later (negative: earlier).
    """

    left: Table
    right: Table
    cache: Cache | None = None
    materialized: bool = False
    window_map: int | None = None

    family = "table-table"


@dataclass(frozen=True, kw_only=True)
class ForeignKeyJoin(Join):
    """table ⋈ table, ``foreign_key``: right key column to an expression over the left record."""

    left: Table
    right: Table
    foreign_key: Mapping[str, str]
    cache: Cache | None = None
    materialized: bool = False

    family = "fk-table-table"


@dataclass(frozen=True, kw_only=True)
class OneToManyJoin(Join):
    """table ⋈ the many rows of another table that point to it; keyed by both keys.

    ``foreign_key``: left key column to an expression over the right record.
    """

    left: Table
    right: Table
    foreign_key: Mapping[str, str]
    cache: Cache | None = None

    family = "one-to-many"


@dataclass(frozen=True, kw_only=True)
class GlobalGlobalJoin(Join):
    """global table ⋈ global table: a view, resolved when it is read. ``key`` as in `StreamGlobalJoin`."""

    left: GlobalTable
    right: GlobalTable
    key: Mapping[str, str]

    triggers = ()
    family = "global-global"
