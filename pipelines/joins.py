"""What a declared join is made of: one frozen value per join family.

How a family computes its rows is in the package ``joins``, one file each, found by the class of these values.
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

ValueExpr = str | Callable[[Any, Any], Any]
"""SQL over ``left.*`` and ``right.*``, or a function of the two Spark columns."""


@dataclass(frozen=True)
class Join:
    """What all families share. ``select`` maps an output column to its expression."""

    how: How
    left: Node
    right: Node
    select: Mapping[str, ValueExpr]
    semantics: Semantics

    family = "join"
    triggers: ClassVar[tuple[str, ...]] = ("left", "right")


@dataclass(frozen=True)
class StreamStreamJoin(Join):
    """stream ⋈ stream within a window."""

    left: Stream
    right: Stream
    window: JoinWindow

    family = "stream-stream"


@dataclass(frozen=True)
class StreamGlobalJoin(Join):
    """stream ⋈ global table, looked up by ``key``: right key column to an expression over the left record."""

    left: Stream
    right: GlobalTable
    key: Mapping[str, str]
    bootstrap: Bootstrap

    triggers = ("left",)
    family = "stream-globaltable"


@dataclass(frozen=True)
class ForeignKeyJoin(Join):
    """table ⋈ table, ``foreign_key``: right key column to an expression over the left record."""

    left: Table
    right: Table
    foreign_key: Mapping[str, str]

    family = "fk-table-table"
