"""What every join operator takes and gives, and the registry of families.

To add a family: one file with ``compute`` and its line in `OPERATORS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Protocol, cast

from pyspark.sql import DataFrame

from pipelines import ForeignKeyJoin, Join, StreamGlobalJoin, StreamStreamJoin

Side = Literal["left", "right"]
Moment = Literal["before", "after"]
OpenRecords = Callable[[Side, int], DataFrame]
StateRead = Mapping[Side, Literal["open", "before", "after"]]
"""Per side: open records of earlier epochs, or a table before or after the epoch's records."""
TableRows = Callable[[Side, Moment], DataFrame]


@dataclass(frozen=True)
class EpochInputs:
    """All that one epoch of one join may look at.

    Attributes
    ----------
    left, right
        The epoch's records: key, value, timestamp (ms), partition, offset, and ``order``, sorting both inputs.
    open_records
        ``(side, slack)``: records of earlier epochs with ``timestamp + slack > stream time`` of their partition.
    table
        ``(side, moment)``: live rows of an input table before the epoch's records, or after them.
    emitted
        ``(slack)``: the join's own earlier rows with ``timestamp + slack > stream time`` of their partition.
    stream_time
        Partition to stream time (ms) before the epoch; a partition without records is absent.
    keep
        The same rows, for a frame that is used more than once: the caller may compute it once.
    """

    left: DataFrame
    right: DataFrame
    open_records: OpenRecords
    table: TableRows
    emitted: Callable[[int], DataFrame | None]
    stream_time: Mapping[int, int] = field(default_factory=dict)
    keep: Callable[[DataFrame], DataFrame] = lambda frame: frame


@dataclass(frozen=True)
class EpochFrames:
    """What one epoch of one join gives.

    Attributes
    ----------
    rows
        Result records: key, value, timestamp (ms), partition, ``trigger`` STRUCT<side, partition, offset>, further
        provenance of the family, and ``sequence``: the order of the rows within their partition.
    late
        Records dropped as late: side, key, value (JSON), timestamp, partition, offset, stream_time, close (all ms).
    """

    rows: DataFrame
    late: DataFrame | None = None


class Operator(Protocol):
    """One join family."""

    @staticmethod
    def state(join: Any) -> StateRead:
        """What is read of each side besides the epoch's records."""
        ...

    @staticmethod
    def compute(join: Any, inputs: EpochInputs) -> EpochFrames:
        """Rows of one epoch: a function of the inputs alone."""
        ...


OPERATORS: Mapping[type[Join], str] = {
    StreamStreamJoin: "joins.stream_stream",
    StreamGlobalJoin: "joins.stream_global",
    ForeignKeyJoin: "joins.foreign_key",
}


def operator_of(join: Join) -> Operator:
    """The operator of the join's family."""
    return cast(Operator, import_module(OPERATORS[type(join)]))


def compute(join: Join, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch of a declared join."""
    return operator_of(join).compute(join, inputs)
