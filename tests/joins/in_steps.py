"""Every epoch of every case side by side, without tables: a proof by induction over the cuts of a history.

An epoch is a function of its records and of what the epochs before it left: their records, the rows emitted, the
operator's memory, stream time. The epochs of a cut need not run one after the other to show that they give the rows
of one epoch. Each is a partition of its own here:

    history  r0 r1 r2       epoch 1: state of nothing,  new r0
    cut after each          epoch 2: state of r0,       new r1
                            epoch 3: state of r0 r1,    new r2

Two runs of the operator answer all of them:

| run | a partition holds | gives |
|---|---|---|
| so far | all records before an epoch, as one epoch | the state that the epoch starts with |
| steps | the epoch's records, on that state | the epoch's rows |

The step that is proved: state so far + an epoch's rows, late records and memory = state so far of the next epoch. So
the rows of the steps, one after the other, are those of any cut into these epochs. The protocol around a step (plans,
commits, folds, what is read back from Delta) is proved by `assets.replay_epochs` in the tests marked ``prove``, and
once per family by ``tests/joins/test_real_epochs.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from assets.replay import Rows, Way, widest
from assets.replay_cases import Case
from assets.replay_declared import declared
from assets.replay_frames import Place, answers, in_listed_order, numbers_of, records
from infra.offsets import looked_up
from infra.shared_frames import SharedFrames
from joins.changelog import as_of
from joins.operator import EpochFrames, EpochInputs, Moment, Numbers, Side, compute
from joins.order import LEFT, RIGHT
from pipelines import Operation

if TYPE_CHECKING:
    from pyspark.sql import Row

Cut = Callable[[int], Iterable[int]]
"""Length of a history to the places where its epochs end, the length itself last."""
OWN = frozenset({"c", "many_c", "case", "partition", "left_hash", "epoch"})
"""Fields that name the partition of a case, or are made from one that does."""


def each_alone(length: int) -> Iterable[int]:
    """An epoch for each record."""
    return range(1, length + 1)


def in_pieces(count: int) -> Cut:
    """So many epochs of nearly equal length: those of `assets.replay_epochs`."""
    return lambda length: sorted({-(-epoch * length // count) for epoch in range(1, count + 1)})


@dataclass(frozen=True)
class Step:
    """Records ``[start, end)`` of a case, as one epoch; the last step of a case has none, and shows its last state."""

    case: int
    start: int
    end: int


def in_steps(cut: Cut) -> Way:
    """Each case cut into these epochs."""

    def run(spark: SparkSession, cases: Sequence[Case]) -> Mapping[int, Rows]:
        steps = [
            Step(number, start, end)
            for number, case in enumerate(cases)
            for ends in [[*cut(len(case.input))]]
            for start, end in pairwise([0, *ends, ends[-1] if ends else 0])
        ]
        return _answered(spark, cases, steps)

    return run


def _answered(spark: SparkSession, cases: Sequence[Case], steps: Sequence[Step]) -> Mapping[int, Rows]:
    shared = SharedFrames("steps")
    try:
        run = _Run(spark, cases, steps, shared)
        so_far = run.compute(run.so_far())
        taken = run.compute(run.steps(so_far))
        many = cases[0].join == "one-to-many"
        before, found = (answers(frames.rows, many, "sequence") for frames in (so_far, taken))
        _check_left_behind(steps, so_far, taken, "memory", adds=False)
        _check_left_behind(steps, so_far, taken, "late", adds=True)
    finally:
        shared.release()
    rows: dict[int, Rows] = {}
    for number, step in enumerate(steps):
        mine = rows.setdefault(step.case, [])
        # Where a cache holds rows back, epochs end with a commit of it: then only the fold is that of one epoch.
        if cases[step.case].cache:
            assert _fold(before.get(number, [])) == _fold(mine), (cases[step.case].name, step)
        else:
            assert before.get(number, []) == mine, (cases[step.case].name, step)
        mine += found.get(number, [])
    return rows


def _fold(rows: Rows) -> dict[Any, Any]:
    last = {row["key"]: (row["value"], row["ts"]) for row in rows}
    return {key: row for key, row in last.items() if row[0] is not None}


@dataclass
class _Run:
    spark: SparkSession
    cases: Sequence[Case]
    numbered: Sequence[Step]
    shared: SharedFrames

    def __post_init__(self) -> None:
        own = [self.cases[step.case] for step in self.numbered]
        self.numbers: Numbers = numbers_of(self.spark, own)
        operation = declared(widest(self.cases), len(self.numbered)).operation
        assert operation is not None
        self.operation: Operation = operation
        self.before = self._sides(lambda step: range(step.start))
        self.new = self._sides(lambda step: range(step.start, step.end))

    def compute(self, inputs: EpochInputs) -> EpochFrames:
        """The operator's frames, each computed once."""
        found = compute(self.operation, inputs)
        memory, late = (f if f is None else self.shared.keep(f) for f in (found.memory, found.late))
        return EpochFrames(self.shared.keep(found.rows), late, memory, found.timed)

    def so_far(self) -> EpochInputs:
        """What came before each epoch, as one epoch on the state of nothing."""
        nothing = {side: frame.where("false") for side, frame in self.before.items()}
        return EpochInputs(
            records=self._ordered(self.before),
            open_records=lambda side, slack: nothing[side],  # pyright: ignore[reportArgumentType]
            earlier=lambda side: nothing[side],
            table=lambda side, moment: as_of(None, nothing[side] if moment == "before" else self.before[side]),
            emitted=lambda slack: None,
            keep=self.shared.keep,
            numbers=self.numbers,
        )

    def steps(self, so_far: EpochFrames) -> EpochInputs:
        """Each epoch's records, on what came before."""
        times = _times(so_far.timed)

        def is_open(frame: DataFrame, slack: int) -> DataFrame:
            return frame.where(f"timestamp > {looked_up(times)} - {slack}L")

        def table(side: Side, moment: Moment) -> DataFrame:
            known = self.before[side]
            return as_of(None, known if moment == "before" else known.unionByName(self.new[side]))

        def emitted(slack: int | None) -> DataFrame:
            place = F.expr("CAST(row_number() OVER (PARTITION BY partition ORDER BY sequence) - 1 AS BIGINT)")
            rows = so_far.rows.withColumn("offset", place).drop("sequence")
            return rows if slack is None else is_open(rows, slack)

        return EpochInputs(
            records=self._ordered(self.new),
            open_records=lambda side, slack: is_open(self.before[side], slack),  # pyright: ignore[reportArgumentType]
            earlier=lambda side: self.before[side],
            table=table,
            emitted=emitted,
            memory=lambda: so_far.memory,
            stream_time=times,
            keep=self.shared.keep,
            numbers=self.numbers,
        )

    def _sides(self, part: Callable[[Step], Iterable[int]]) -> dict[Side, DataFrame]:
        def places() -> Iterator[Place]:
            for number, step in enumerate(self.numbered):
                for offset in part(step):
                    yield number, offset, self.cases[step.case].input[offset]

        many = self.cases[0].join == "one-to-many"
        left = self.shared.keep(records(self.spark, places(), "left", many))
        # A self-join meets its own records: they are both of its inputs.
        right = left if self.cases[0].self else self.shared.keep(records(self.spark, places(), "right", many))
        return {"left": left, "right": right}

    def _ordered(self, sides: Mapping[Side, DataFrame]) -> dict[Side, DataFrame]:
        ordered = in_listed_order(self.numbers)
        places: dict[Side, int] = {"left": LEFT, "right": RIGHT}
        return {side: self.shared.keep(ordered(frame, places[side])) for side, frame in sides.items()}


def _times(timed: Sequence[DataFrame]) -> dict[int, int]:
    """Stream time by partition, as an epoch's totals have it."""
    times: dict[int, int] = {}
    for frame in timed:
        for partition, time in frame.groupBy("partition").agg(F.max("timestamp")).collect():
            times[partition] = max(time, times.get(partition, time))
    return times


def _check_left_behind(steps: Sequence[Step], so_far: EpochFrames, taken: EpochFrames, name: str, adds: bool) -> None:
    """What a step leaves is what the next one starts with; ``adds``: on top of what it started with itself."""
    before, after = (_by_step(getattr(frames, name)) for frames in (so_far, taken))
    for number, (step, following) in enumerate(pairwise(steps)):
        if step.case == following.case:
            left = sorted(after[number] + (before[number] if adds else []))
            assert left == sorted(before[number + 1]), (name, step)


def _by_step(frame: DataFrame | None) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for row in frame.collect() if frame is not None else []:
        found[row["partition"]].append(repr(_without_own(row)))
    return found


def _without_own(row: Row) -> dict[str, Any]:
    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(part) for name, part in value.items() if name not in OWN}
        return value

    return bare(row.asDict(recursive=True))
