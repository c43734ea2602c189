"""What is said of streams that look up tables, against the records that the reference look-ups have found."""

from __future__ import annotations

from typing import Any

import pytest

from rivermeet.joins.reference.records import Record, run
from rivermeet.joins.stream_global.reference import StreamGlobalJoin
from rivermeet.joins.stream_table.reference import StreamTableJoin
from tests.joins.why.given import SELECT, Given, two
from tests.reference.histories import NASTY_GLOBAL, foreign_key_of, random_histories, records_of


def places(given: Given, made: Any) -> tuple[int | None, ...]:
    """Positions of the records that a row was made of."""
    found = [made.parts.get(side) for side in ("left", "right")]
    return tuple(None if one is None else int(one.order[-1]) for one in found)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("versioned", [None, 20])
def test_a_row_is_the_record_with_what_the_table_had(how: str, versioned: int | None) -> None:
    options: dict[str, Any] = {} if versioned is None else {"history": versioned}
    left, right = two("stream", "table", same_key=True, **options)
    node = (left.join if how == "inner" else left.left_join)(right, "n", select=SELECT)
    checked = 0
    for history in random_histories(3, 60):
        given = Given(node, history)
        given.mapped = lambda mapper, record: record.key  # type: ignore[method-assign]
        for row in run(StreamTableJoin(how, "3.1", versioned), history):
            if versioned is not None and _is_forgotten(history, row, versioned):
                continue
            assert places(given, given.made(row)) == (row.left, row.right), history
            checked += 1
    assert checked > 50


def _is_forgotten(history: list[Record], row: Any, versioned: int) -> bool:
    """Whether the table skipped a put of the key as too old, forgot one, or undid one (Kafka's slip).

    Explanations do not know these: they would have to read all of the table's records.
    """
    puts = [r for r in history if r.side == "right"]
    reached = max((r.timestamp for r in puts), default=0)
    own = [r for r in puts if r.key == row.key]
    dropped = any(r.timestamp < max(p.timestamp for p in puts if p.position <= r.position) - versioned for r in own)
    times = [r.timestamp for r in own]
    return dropped or history[row.left].timestamp < reached - versioned or len(times) != len(set(times))


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("bootstrap", ["epoch", "timestamp"])
def test_a_row_has_what_the_global_table_had(how: str, bootstrap: Any) -> None:
    left, right = two("stream", "global_table")
    verb = left.join if how == "inner" else left.left_join
    node = verb(right, "n", key="v", bootstrap=bootstrap, select=SELECT)
    checked = 0
    for history in [records_of(NASTY_GLOBAL), *random_histories(4, 40, "stream_global")]:
        epochs = [1 + record.position * 3 // len(history) for record in history]
        join, given = StreamGlobalJoin(how, foreign_key_of), Given(node, history, epochs=epochs)
        for epoch in (1, 2, 3):
            batch = [record for record, at in zip(history, epochs, strict=True) if at == epoch]
            for row in join.process_epoch(batch, "epoch" if bootstrap == "epoch" else "given"):
                made = given.made(row)
                assert places(given, made) == (row.left, row.right)
                assert made.says if row.right is None else not made.says
                checked += 1
    assert checked > 200


def test_why_an_inner_look_up_gave_no_row() -> None:
    left, right = two("stream", "global_table")
    node = left.join(right, "n", key="v", bootstrap="timestamp", select=SELECT)
    history = records_of(
        [
            ("left", "early", "f|1", 1),
            ("right", "f", "x", 2),
            ("left", "never", "g|1", 3),
            ("left", "null", "|1", 3),
            ("left", "empty", None, 3),
            ("right", "f", None, 4),
            ("left", "gone", "f|1", 5),
            ("left", "unread", "f|1", 6),
        ]
    )
    assert not run(StreamGlobalJoin("inner", foreign_key_of), history)
    given = Given(node, history, consumed=7)
    assert {key: given.missing(key) for key in ("early", "never", "null", "empty", "gone", "unread", "nobody")} == {
        "early": {"right-came-later"},
        "never": {"no-right"},
        "null": {"no-look-up-key"},
        "empty": {"null-value"},
        "gone": {"right-deleted"},
        "unread": {"left-not-read"},
        "nobody": {"no-left"},
    }


def test_a_record_that_waited_is_not_what_released_it() -> None:
    left, right = two("stream", "table", same_key=True, history=20)
    node = left.left_join(right, "n", grace=5, select=SELECT)
    history = records_of([("left", "k", "A", 1), ("right", "k", "a", 0), ("left", "z", "Z", 9)])
    given = Given(node, history)
    given.mapped = lambda mapper, record: record.key  # type: ignore[method-assign]
    (row,) = run(StreamTableJoin("left", "3.1", 20, 5), history)
    made = given.made(row)
    assert places(given, made) == (0, 1)
    assert made.says == ("it waited for the grace of the table, and the trigger released it",)
    assert given.missing("z") == {"waiting"}
