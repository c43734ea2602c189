"""Up to where both answers go: our changelogs' offsets against those of the topics, and of the application's group.

    epoch 1 of 'orders' read topic offsets [0, 50) of partition 0, and its changelog has 0..49: each record has its own
    epoch 2 read [50, 61), and its changelog has 50..58: transactions left gaps, and only the range is known

    the application has read up to 55    it has read 0..49 for sure; what later records cause is not compared

The plan of each epoch of a source has the topic's offsets, and the plan after it the changelog's. A node that is hashed
anew, or lies behind another one, has lost them: of such a side only "all that we have read" or "not all" can be said.
Held by ``tests/assets/shadow/test_progress.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.shadow.application import Progress
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import Kafka, Node


@dataclass(frozen=True)
class Piece:
    """What one epoch read of one partition: the topic's ``[start, end)``, the changelog's ``first`` to ``last``."""

    partition: int
    start: int
    end: int
    first: int
    last: int

    @property
    def is_exact(self) -> bool:
        """Whether each offset of the range has its record."""
        return self.last - self.first == self.end - 1 - self.start

    def map_offset(self, upto: int) -> int:
        """The last changelog offset that a reader of the topic up to ``upto`` has certainly read."""
        if upto >= self.end:
            return self.last
        return self.first + upto - self.start - 1 if self.is_exact else self.first - 1


@dataclass(frozen=True)
class TopicInput:
    """A topic below one side of a node, and what was consumed of it.

    Attributes
    ----------
    side
        Of the node that is compared.
    ends
        Partition to the topic's offset up to which we have read.
    pieces
        What its epochs read; empty where the side's offsets are not the source's.
    is_global
        Whether it is read as a global table: a group commits nothing of such a topic.
    """

    side: str
    topic: str
    ends: Offsets
    pieces: tuple[Piece, ...] = ()
    is_global: bool = False

    def place(self, partition: int, offset: int) -> str | None:
        """Where a record of the side's changelog lies in the topic; None where nobody knows."""
        for piece in self.pieces:
            if piece.partition == partition and piece.first <= offset <= piece.last:
                if piece.is_exact:
                    return f"{self.topic}/{partition}@{piece.start + offset - piece.first}"
                return f"{self.topic}/{partition}@{piece.start}..{piece.end - 1}"
        return None

    def map_progress(self, progress: Progress) -> Offsets | None:
        """Partition to the last changelog offset that the application has read for sure; None where it has all."""
        if self.is_global or all(progress.upto(self.topic, p) >= end for p, end in self.ends.items()):
            return None
        found: Offsets = {piece.partition: -1 for piece in self.pieces}
        for piece in self.pieces:
            upto = progress.upto(self.topic, piece.partition)
            if upto > piece.start:
                found[piece.partition] = max(found[piece.partition], piece.map_offset(upto))
        return found

    def behind(self, progress: Progress) -> int:
        """Offsets that we have read and the application has not."""
        return 0 if self.is_global else sum(max(e - progress.upto(self.topic, p), 0) for p, e in self.ends.items())

    def ahead(self, progress: Progress) -> int:
        """Offsets that the application has read and we have not."""
        read = progress.committed.get(self.topic, {})
        return sum(max(upto - self.ends.get(p, 0), 0) for p, upto in read.items())


def topic_inputs(context: EpochContext, node: Node, note: CommitNote) -> list[TopicInput]:
    """The topics below a node, by side, as far as its last epoch has consumed them."""
    assert node.operation is not None
    found: list[TopicInput] = []
    for side, part in node.operation.inputs.items():
        found += _below(context, side, part, note.consumed.get(side, {}), direct=True)
    return found


def _below(context: EpochContext, side: str, node: Node, consumed: Offsets, direct: bool) -> Iterator[TopicInput]:
    if node.source is not None:
        if isinstance(node.source.reads, Kafka):
            yield _of_source(context, side, node, consumed, direct)
        return
    assert node.operation is not None
    found = last_note(context.paths(node).changelog) if node.is_stored else None
    for name, part in node.operation.inputs.items():
        upto = found[1].consumed.get(name, {}) if found is not None else {}
        yield from _below(context, side, part, upto, direct=False)


def _of_source(context: EpochContext, side: str, node: Node, consumed: Offsets, direct: bool) -> TopicInput:
    assert node.source is not None
    ends: Offsets = {}
    exact: list[Piece] = []
    for read, before, after in _epochs(context, node):
        for p, (start, end) in read.ranges.items():
            # Of a source whose keys are hashed again, a record of this partition may lie in any of the changelog's.
            lies_in = after if node.partitions else {p: after.get(p, -1)}
            if all(last <= consumed.get(place, -1) for place, last in lies_in.items()):
                ends[p] = max(end, ends.get(p, 0))
            if direct and not node.partitions and end > start and after.get(p, -1) > before.get(p, -1):
                exact.append(Piece(p, start, end, before.get(p, -1) + 1, after[p]))
    return TopicInput(side, node.source.topic.topic, ends, tuple(exact), node.kind == "global_table")


def _epochs(context: EpochContext, node: Node) -> Iterator[tuple[TopicSlice, Offsets, Offsets]]:
    """The slices that a source has read, newest first, each with its changelog's ends before and after it."""
    found = last_note(context.paths(node).changelog)
    if found is None:
        return
    note = found[1]
    after: Offsets = dict(note.ends)
    for epoch, plan in reversed([*context.log.open_plans(node.name, note.since - 1).items()]):
        if epoch > note.epoch or plan.incarnation != note.incarnation:
            continue
        if isinstance(plan.reads, TopicSlice):
            yield plan.reads, plan.ends, after
        after = plan.ends
