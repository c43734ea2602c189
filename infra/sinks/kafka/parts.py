"""Parts of a delivery: the rows of an epoch, or, of a large one, as many as fit one transaction.

    position                partition 0 up to 4, partition 1 up to 9
    epoch 3 ends at         partition 0: 6, partition 1: 9      one part: partition 0, offsets 5 and 6
    epoch 4 ends at         partition 0: 250,006, …             three parts of at most 100,000 rows

A part is a range of dense offsets: it does not depend on the files that contain its rows, nor on whether maintenance
rewrites them. Held by ``tests/infra/sinks/test_parts.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.delta.changelog_files import part_rows
from rivermeet.infra.delta.io import notes
from rivermeet.infra.sinks.kafka.messages import COLUMNS
from rivermeet.infra.sinks.kafka.position import Position
from rivermeet.pipelines import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Part:
    """Rows ``(after, upto]`` of a changelog, by partition, up to ``epoch``."""

    epoch: int
    after: Offsets
    upto: Offsets

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(end - self.after.get(p, -1) for p, end in self.upto.items())

    def read(self, changelog: str, version: int, session: Callable[[], SparkSession]) -> pa.Table:
        """The rows, by partition and offset."""
        found = part_rows(session, changelog, self.after, self.upto, version, COLUMNS)
        return found.sort_by([("partition", "ascending"), ("offset", "ascending")])


def parts(position: Position, committed: Sequence[CommitNote], most: int = limits.TRANSACTION_ROWS) -> Iterator[Part]:
    """The parts after a position, up to the last of the epochs that were ``committed`` since, oldest first."""
    done: dict[int, int] = dict(position.ends)
    for note in committed:
        yield from _of_epoch(note, done, most)
        done |= note.ends


def _of_epoch(note: CommitNote, done: Mapping[int, int], most: int) -> Iterator[Part]:
    after: dict[int, int] = dict(done)
    upto: dict[int, int] = {}
    room = most
    for partition, end in sorted(note.ends.items()):
        start = after.get(partition, -1)
        while start < end:
            taken = min(room, end - start)
            start, room = start + taken, room - taken
            upto[partition] = start
            if not room:
                yield Part(note.epoch, dict(after), upto)
                after, upto, room = after | upto, {}, most
    if upto:
        yield Part(note.epoch, dict(after), upto)


def read_notes_since(changelog: str, position: Position) -> list[CommitNote]:
    """Notes of the epochs of a changelog from a position on, oldest first.

    The position's own epoch is among them: a part of it may be missing.
    """
    found: list[CommitNote] = []
    for _, note in notes(changelog):
        if note.epoch < position.epoch or note.incarnation != position.incarnation:
            break
        found.append(note)
    return found[::-1]
