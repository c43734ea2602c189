"""Which records of a partition are read: repeats, marks for compaction and messages are passed over and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.sources.kafka.debezium.envelope import Envelope, Position, envelope_decode
from infra.sources.kafka.debezium.repeats import Repeats
from infra.sources.kafka.formats.registry import Registry
from pipelines import Debezium
from tests.infra.sources.kafka.debezium.recorded import Recorded, recorded

Given = tuple[str | None, str, int | None]
"""Op (None: no value), key, and where the change stands."""


def read(given: list[Given], seen: Repeats) -> list[int]:
    """Numbers of the records that are read."""
    found = []
    for number, (op, key, place) in enumerate(given):
        at: Position | None = None if place is None else ("", 1, place)
        value = None if op is None else Envelope("", op, at)
        if not seen.passes_over(0, key.encode(), value):
            found.append(number)
    return found


@pytest.mark.parametrize(
    ("given", "expected", "counted"),
    [
        pytest.param([("c", "a", 1), ("u", "a", 2)], [0, 1], {}, id="changes"),
        pytest.param([("c", "a", 1), ("d", "a", 2), (None, "a", None)], [0, 1], {"delete_marks": 1}, id="a mark"),
        pytest.param([(None, "a", None)], [0], {}, id="a mark whose delete was compacted away is a delete"),
        pytest.param([("d", "a", 2), (None, "b", None)], [0, 1], {}, id="a mark of another key"),
        pytest.param([("d", "a", 2), ("c", "b", 2)], [0, 1], {}, id="an update of a key: two records, one position"),
        pytest.param(
            [("c", "a", 2), ("c", "b", 2), ("c", "a", 2)], [0, 1], {"repeats": 1}, id="one of many rows again"
        ),
        pytest.param(
            [("c", "a", 1), ("u", "a", 2), ("c", "a", 1), ("u", "a", 2), ("u", "a", 3)],
            [0, 1, 4],
            {"repeats": 2},
            id="two again",
        ),
        pytest.param(
            [("d", "a", 2), (None, "a", None), ("d", "a", 2), (None, "a", None), ("c", "a", 3)],
            [0, 4],
            {"repeats": 1, "delete_marks": 2},
            id="a delete again, with its mark",
        ),
        pytest.param(
            [("u", "a", 9), ("r", "a", 5), ("r", "b", 5), ("u", "a", 6)], [0, 1, 2, 3], {}, id="a new snapshot"
        ),
        pytest.param([("u", "a", 9), ("u", "a", None)], [0, 1], {}, id="no position"),
        pytest.param([("m", "", 1), ("c", "a", 2)], [1], {"messages": 1}, id="a message"),
    ],
)
def test_what_is_read(given: list[Given], expected: list[int], counted: dict[str, int]) -> None:
    seen = Repeats()
    assert (read(given, seen), dict(seen.counted)) == (expected, counted)


@pytest.mark.parametrize("cut", range(1, 6))
def test_what_was_seen_goes_from_epoch_to_epoch(cut: int) -> None:
    given: list[Given] = [
        ("c", "a", 1),
        ("d", "a", 2),
        (None, "a", None),
        ("c", "a", 1),
        ("d", "a", 2),
        (None, "a", None),
    ]
    whole, first = Repeats(), Repeats()
    expected = read(given, whole)
    found = read(given[:cut], first)
    second = Repeats.of(first.kept("t"), "t")
    found += [cut + number for number in read(given[cut:], second)]
    assert found == expected
    assert Repeats.of(first.kept("t"), "another").partitions == {}


def test_another_server_has_other_positions() -> None:
    """After a fail-over of MySQL a file may have a lower number: that is no repeat."""
    seen = Repeats()
    assert not seen.passes_over(0, b"a", Envelope("", "u", ("1", 12, 4, 0)))
    assert not seen.passes_over(0, b"a", Envelope("", "u", ("2", 3, 4, 0)))
    assert seen.passes_over(0, b"a", Envelope("", "u", ("2", 3, 2, 0)))


def test_a_commit_that_is_not_known() -> None:
    """Without the last commit nothing says what came first: no record is lost for it."""
    seen = Repeats()
    assert not seen.passes_over(0, b"a", Envelope("", "u", ("", 9, 9)))
    assert not seen.passes_over(0, b"a", Envelope("", "u", ("", 0, 5)))


FIRST, REST = recorded("restart")[:14], recorded("restart")[14:]
STARTS = [n for n in range(1, 12) if FIRST[-n].value is not None]
"""How many lines a connector may write again: it does not begin with a mark, and a snapshot would be a new one."""


@pytest.mark.parametrize("again", STARTS)
def test_a_connector_that_repeats_what_it_wrote(again: int) -> None:
    """The last lines of a recorded stream once more, as after a kill before the connector stored its offset."""
    decode = envelope_decode(Debezium({"n": "INT"}), Registry("", Path()))

    def passed(*records: Recorded) -> list[Recorded]:
        seen = Repeats()
        made = [(one, decode(one.value) if one.value is not None else None) for one in records]
        return [one for one, value in made if not seen.passes_over(0, one.key, value)]

    assert passed(*FIRST, *FIRST[-again:], *REST) == passed(*FIRST, *REST)
