"""What is delivered at once, of epochs that end where literal offsets say."""

from __future__ import annotations

import pytest

from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.sinks.kafka.position import Part, Position, parts


def note(epoch: int, ends: Offsets) -> CommitNote:
    return CommitNote(incarnation=1, epoch=epoch, ends=ends)


@pytest.mark.parametrize(
    ("position", "committed", "expected"),
    [
        # Each epoch is a part, with what came after the position alone.
        (
            {0: 4, 1: 9},
            [note(3, {0: 6, 1: 9}), note(4, {0: 6, 1: 10, 2: 0})],
            [Part(3, {0: 4, 1: 9}, {0: 6}), Part(4, {0: 6, 1: 9}, {1: 10, 2: 0})],
        ),
        # A large one is several, over the ends of partitions.
        (
            {},
            [note(1, {0: 3, 1: 1})],
            [Part(1, {}, {0: 2}), Part(1, {0: 2}, {0: 3, 1: 1})],
        ),
        # Exactly as many as a part may have: no empty one behind it.
        ({}, [note(1, {0: 2})], [Part(1, {}, {0: 2})]),
        # An epoch without rows, and one that is delivered already.
        ({0: 2}, [note(1, {0: 2}), note(2, {0: 2})], []),
    ],
)
def test_parts(position: Offsets, committed: list[CommitNote], expected: list[Part]) -> None:
    found = list(parts(Position(ends=position), committed, most=3))
    assert found == expected
    assert all(0 < part.rows <= 3 for part in found)
