"""The interface of an operator: a module with ``state`` and ``compute``, which its family names by profile.

A family is registered in the ``family.py`` of its folder (``pipelines/family.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.pipelines import Operation
from rivermeet.pipelines.family import Side, family_of

Moment = Literal["before", "after"]
Numbers = Callable[..., DataFrame]
StateRead = Mapping[Side, Literal["open", "before", "after", "earlier"]]
"""Per side: open records, a table before or after the epoch's records, or all records of earlier epochs."""


def declare_numbers(frame: DataFrame, **numbers: int | None) -> DataFrame:
    """The frame with each number as a BIGINT column of that name."""
    return frame.select("*", *[F.lit(number).cast("bigint").alias(name) for name, number in numbers.items()])


@dataclass(frozen=True)
class EpochInputs:
    """The inputs of one epoch of one operation.

    Attributes
    ----------
    records
        Side to the epoch's records: key, value, timestamp (ms), partition, offset; ``order``, sorting both inputs;
        ``commit`` (BIGINT), counting the cache's commits within the epoch.
    open_records
        ``(side, slack)``: records of earlier epochs with ``timestamp + slack > stream time`` of their partition.
    earlier
        ``(side)``: all records of earlier epochs.
    table
        ``(side, moment)``: live rows of an input table before the epoch's records, or after them.
    emitted
        ``(slack)``: the operation's own earlier rows with ``timestamp + slack > stream time`` of their partition;
        all of them without a slack.
    memory
        Operator state: the ``memory`` frame of the last committed epoch; None before the first.
    stream_time
        Partition to stream time (ms) before the epoch; a partition without records is absent.
    keep
        Returns the same rows, for a frame that is used more than once: the caller may cache it.
    keep_if_few
        The same, for a frame that is cheap to recompute: the caller may cache it if the epoch is small.
    keep_if_many
        The same, for a frame of few steps: a small epoch recomputes it, as each kept frame is a request of its own.
    broadcast
        ``(keys)``: keys of the epoch's records, marked to be broadcast to a table's rows if they are few.
    numbers
        ``(frame, **numbers)``: the frame with declared numbers (ms) as columns. They are columns because many
        declarations may be run at once, each in its own partition with its own numbers.
    """

    records: Mapping[Side, DataFrame]
    open_records: Callable[[Side, int], DataFrame]
    earlier: Callable[[Side], DataFrame]
    table: Callable[[Side, Moment], DataFrame]
    emitted: Callable[[int | None], DataFrame | None]
    memory: Callable[[], DataFrame | None] = lambda: None
    stream_time: Mapping[int, int] = field(default_factory=dict)
    keep: Callable[[DataFrame], DataFrame] = lambda frame: frame
    keep_if_few: Callable[[DataFrame], DataFrame] = lambda frame: frame
    keep_if_many: Callable[[DataFrame], DataFrame] = lambda frame: frame
    broadcast: Callable[[DataFrame], DataFrame] = lambda keys: keys
    numbers: Numbers = declare_numbers

    @property
    def left(self) -> DataFrame:
        """The epoch's records of the left, or only, input."""
        return self.records["left"]

    @property
    def right(self) -> DataFrame:
        """The epoch's records of the right input."""
        return self.records["right"]


@dataclass(frozen=True)
class EpochFrames:
    """The results of one epoch of one operation.

    Attributes
    ----------
    rows
        Result records: key, value, timestamp (ms), partition, ``trigger`` STRUCT<side, partition, offset>, further
        provenance of the family, and ``sequence``: the order of the rows within their partition.
    late
        Records that were dropped, in the columns of `joins.late`.
    memory
        Operator state that the next epoch needs and no changelog contains; the operator chooses its ``partition``.
    timed
        Frames whose highest timestamp per partition is stream time.
    """

    rows: DataFrame
    late: DataFrame | None = None
    memory: DataFrame | None = None
    timed: tuple[DataFrame, ...] = ()


class Operator(Protocol):
    """One family, in one or several profiles."""

    @staticmethod
    def state(join: Any) -> StateRead:
        """The state that is read of each side in addition to the epoch's records."""
        ...

    @staticmethod
    def compute(join: Any, inputs: EpochInputs) -> EpochFrames:
        """Rows of one epoch: a function of the inputs alone."""
        ...


def operator_of(operation: Operation) -> Operator:
    """The operator of a declared operation."""
    return family_of(operation).operator(operation.semantics)


def reads_once(operation: Operation) -> bool:
    """Whether the operator reads the epoch's records only once, or caches them itself: its ``READS_ONCE``.

    A frame that is read two or three times is cheaper to recompute than to cache, which is a separate request,
    and most of an epoch of a hundred records is the planning of its requests.
    """
    return getattr(operator_of(operation), "READS_ONCE", False)


def compute(operation: Operation, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch of a declared operation."""
    return operator_of(operation).compute(operation, inputs)
