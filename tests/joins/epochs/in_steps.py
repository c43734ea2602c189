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

The step that is proved: state so far + an epoch's rows and memory = state so far of the next epoch. So the rows of the
steps, one after the other, are those of any cut into these epochs. The protocol around a step (plans, commits, folds,
what is read back from Delta) is proved by `assets.replay.epochs` and ``tests/world.py``: a few epochs of each family in
`make test`, all of them in `make prove`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from rivermeet.assets.replay.cases import Case, declare
from rivermeet.assets.replay.run import Place, Rows, Way, in_listed_order, numbers_of, records, widest
from rivermeet.infra.delta.changelog_files import lookup_sql
from rivermeet.infra.engine.fit import fit_shuffles
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.joins.operator import EpochInputs, Moment, Numbers, Side, compute
from rivermeet.joins.order import LEFT, RIGHT
from rivermeet.pipelines import Operation
from rivermeet.records.changelog import as_of

Cut = Callable[[int], Iterable[int]]
"""Length of a history to the places where its epochs end, the length itself last."""
OWN = frozenset({"c", "many_c", "case", "partition", "left_hash", "epoch"})
"""Fields that name the partition of a case, or are made from one that does."""


def each_alone(length: int) -> Iterable[int]:
    """An epoch for each record."""
    return range(1, length + 1)


def in_pieces(count: int) -> Cut:
    """So many epochs of nearly equal length: those of `assets.replay.epochs`."""
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
    size = sum(step.end for step in steps)
    fit_shuffles(spark, size, len(cases))
    shared = SharedFrames("steps", size)
    try:
        run = _Run(spark, cases, steps, shared)
        so_far = run.compute(run.so_far())
        taken = run.compute(run.steps(so_far))
    finally:
        shared.release()
    # Where a cache holds rows back, the end of an epoch is a commit of it: then one epoch has other rows, and leaves
    # another memory. What the rows of the steps must be, their test says.
    if not cases[0].cache:
        _check_left_behind(steps, so_far.memory, taken.memory)
        _check_dropped(steps, so_far.late, taken.late)
    before, found = _by_step(so_far.rows), _by_step(taken.rows)
    rows: dict[int, list[Row]] = defaultdict(list)
    for number, step in enumerate(steps):
        mine, name = rows[step.case], cases[step.case].name
        if not cases[step.case].cache:
            assert [*map(_without_own, before[number])] == [*map(_without_own, mine)], (name, step)
        mine += found[number]
    return {case: [_answer(row) for row in mine] for case, mine in rows.items()}


def _answer(row: Row) -> dict[str, Any]:
    """A row as a case's output has it."""
    return {
        "key": "".join(row.key[name] for name in ("k", "many_k") if name in row.key) if row.key else None,
        "value": row.value and row.value.v,
        "ts": row.timestamp,
        "in": row.trigger.offset,
    }


@dataclass(frozen=True)
class Computed:
    """The frames of an epoch as rows, and stream time by partition."""

    rows: Sequence[Row]
    schema: StructType
    memory: Sequence[Row] = ()
    memory_schema: StructType | None = None
    late: Sequence[Row] = ()
    stream_time: Mapping[int, int] = field(default_factory=dict)


@dataclass
class _Run:
    spark: SparkSession
    cases: Sequence[Case]
    numbered: Sequence[Step]
    shared: SharedFrames

    def __post_init__(self) -> None:
        own = [self.cases[step.case] for step in self.numbered]
        self.numbers: Numbers = numbers_of(self.spark, own)
        operation = declare(widest(self.cases), len(self.numbered)).operation
        assert operation is not None
        self.operation: Operation = operation
        self.before = self._sides(lambda step: range(step.start))
        self.new = self._sides(lambda step: range(step.start, step.end))

    def compute(self, inputs: EpochInputs) -> Computed:
        """What the operator gives, in order: as rows, so that what reads them plans none of this again."""
        found = compute(self.operation, inputs)
        ordered = found.rows.orderBy("partition", "sequence").drop("sequence")
        times: dict[int, int] = {}
        if found.timed:
            timed = reduce(DataFrame.union, [frame.select("partition", "timestamp") for frame in found.timed])
            times = dict(timed.groupBy("partition").agg(F.max("timestamp")).collect())  # pyright: ignore
        return Computed(
            ordered.collect(),
            ordered.schema,
            found.memory.collect() if found.memory is not None else (),
            found.memory.schema if found.memory is not None else None,
            found.late.collect() if found.late is not None else (),
            times,
        )

    def so_far(self) -> EpochInputs:
        """What came before each epoch, as one epoch on the state of nothing."""
        nothing = {side: frame.where("false") for side, frame in self.before.items()}
        return EpochInputs(
            records=self._ordered(self.before),
            open_records=lambda side, slack: nothing[side],  # pyright: ignore[reportArgumentType]
            earlier=lambda side: nothing[side],
            table=lambda side, moment: _live(nothing[side] if moment == "before" else self.before[side]),
            emitted=lambda slack: None,
            keep=self.shared.keep,
            keep_if_few=self.shared.keep_if_few,
            keep_if_many=self.shared.keep_if_many,
            numbers=self.numbers,
        )

    def steps(self, so_far: Computed) -> EpochInputs:
        """Each epoch's records, on what came before."""
        times, kept = so_far.stream_time, so_far.memory_schema
        memory = None if kept is None else self.spark.createDataFrame(so_far.memory, kept)

        def is_open(frame: DataFrame, slack: int) -> DataFrame:
            return frame.where(f"timestamp > {lookup_sql(times)} - {slack}L")

        def table(side: Side, moment: Moment) -> DataFrame:
            known = self.before[side]
            return _live(known if moment == "before" else known.unionByName(self.new[side]))

        schema = StructType([*so_far.schema.fields, StructField("offset", LongType())])
        places: Counter[int] = Counter()
        numbered = []
        for row in so_far.rows:
            numbered.append((*row, places[row.partition]))
            places[row.partition] += 1
        rows = self.spark.createDataFrame(numbered, schema).withColumn("epoch", F.lit(1).cast("bigint"))

        def emitted(slack: int | None) -> DataFrame:
            return rows if slack is None else is_open(rows, slack)

        return EpochInputs(
            records=self._ordered(self.new),
            open_records=lambda side, slack: is_open(self.before[side], slack),  # pyright: ignore[reportArgumentType]
            earlier=lambda side: self.before[side],
            table=table,
            emitted=emitted,
            memory=lambda: memory,
            stream_time=times,
            keep=self.shared.keep,
            keep_if_few=self.shared.keep_if_few,
            keep_if_many=self.shared.keep_if_many,
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


def _live(records: DataFrame) -> DataFrame:
    """The table of records that came in one epoch."""
    return as_of(None, records.withColumn("epoch", F.lit(1).cast("bigint")))


def _check_left_behind(steps: Sequence[Step], so_far: Sequence[Row], taken: Sequence[Row]) -> None:
    """What a step leaves is what the next one starts with."""
    before, after = _by_step(so_far), _by_step(taken)
    for number in _followed(steps):
        left = sorted(repr(_without_own(row)) for row in after[number])
        assert left == sorted(repr(_without_own(row)) for row in before[number + 1]), steps[number]


def _check_dropped(steps: Sequence[Step], so_far: Sequence[Row], taken: Sequence[Row]) -> None:
    """A record is dropped, for the same reason, in every cut."""
    before, found = _by_step(so_far), _by_step(taken)
    for number in _followed(steps):
        dropped = sorted(_reason(row) for row in [*before[number], *found[number]])
        assert dropped == sorted(map(_reason, before[number + 1])), steps[number]


def _followed(steps: Sequence[Step]) -> Iterator[int]:
    """Numbers of the steps whose case goes on with the next one."""
    return (number for number, (step, following) in enumerate(pairwise(steps)) if step.case == following.case)


def _reason(row: Row) -> str:
    return f"{row.offset} {row.side} {row.reason}"


def _by_step(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.partition].append(row)
    return found


def _without_own(row: Row) -> dict[str, Any]:
    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(part) for name, part in value.items() if name not in OWN}
        return value

    return bare(row.asDict(recursive=True))
