"""stream ⋈ stream through the real epochs: printed tables, the nasty script and generated histories, in every cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rivermeet.joins.reference.records import Record
from rivermeet.joins.stream_stream.reference.profile_3_1 import StreamStreamJoin
from rivermeet.pipelines import JoinWindow
from tests.golden.load import cases
from tests.joins.epochs.batch import TYPES, Batch, by_partition, found, run, two_streams
from tests.reference.histories import NASTY_STREAM_STREAM, random_histories, records_of
from tests.world import World

Make = Callable[..., World]
PRINTED = cases("stream-stream", "3.1")
WINDOWS = [(10, 10, 5), (3, 12, 0), (0, 0, 4), (-3, 8, 2)]


def expected(how: str, window: tuple[int, int, int], batch: Batch, case: int) -> tuple[list[Any], list[Any]]:
    """Rows and late records by the reference, in the shape of `found`."""
    join = StreamStreamJoin(how, *window)
    rows = [row for piece in batch.pieces(case) for x in piece for row in join.process(replace(x, trace=[]))]
    at = batch.offsets(case)
    answers = [
        (
            row.key,
            row.value,
            row.timestamp,
            at[row.trigger],
            None if row.left is None else at[row.left][1],
            None if row.right is None else at[row.right][1],
        )
        for row in rows
    ]
    late = [(*at[x.position], note.stream_time, note.close) for x in join.late for note in x.trace or ()]
    silent = {"inner": ("left", "right"), "left": ("right",), "outer": ()}[how]
    keyless = [x for piece in batch.pieces(case) for x in piece if x.key is None and x.value is not None]
    return answers, late + [(*at[x.position], None, None) for x in keyless if x.side in silent]


def check(make: Make, how: str, window: tuple[int, int, int], inputs: Sequence[Sequence[Record]], epochs: int) -> None:
    left, right = two_streams()
    verb = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how]
    node = verb(right, "ab", window=JoinWindow(*window), select={"l": "left.v", "r": "right.v"})
    world, batch = make(f"{how}-{window}-{epochs}", a=TYPES, b=TYPES), Batch(inputs, epochs)
    rows = by_partition(run(world, node, batch))
    late = [
        (row["partition"], row["side"], row["offset"], row["stream_time"], row["close"])
        for row in world.rows(node, "late")
    ]
    for case in range(len(inputs)):
        answers, dropped = expected(how, window, batch, case)
        assert [found(row) for row in rows.get(case, [])] == answers, (how, window, epochs, case)
        assert sorted(x[1:] for x in late if x[0] == case) == sorted(dropped), (how, window, case)


def test_printed_tables_say_what_the_reference_says() -> None:
    """The reference stands in for the tables below; here are the tables themselves."""
    for case in PRINTED:
        assert case.window is not None
        join = StreamStreamJoin(case.how, case.window.before, case.window.after, case.window.grace)
        rows = [(r.position, row.key, row.value) for r in case.records for row in join.process(r)]
        assert rows == [(e.at_step, e.key, e.value) for e in case.expected], case.id


@pytest.mark.parametrize(("how", "epochs"), [("inner", 2), ("left", 3), ("outer", 1)])
def test_nasty_script_and_random_histories(world: Make, how: str, epochs: int) -> None:
    inputs = [records_of(NASTY_STREAM_STREAM), *random_histories(7, 40)]
    check(world, how, WINDOWS[0], inputs, epochs)
