"""Recognises repeated records of a partition: a restarted connector repeats a run of changes.

| partition 0 | record | is read |
|---|---|---|
| offset 0 to 2 | c of rows A, B, A: position 5, a page of a COPY | yes: rows share a position, and may be identical |
| offset 3, 4 | c of A, B: position 5, an hour later | no: the connector paused, and then repeated |
| offset 5 | d of key 1, position 7 | yes: a tombstone |
| offset 6 | no value, key 1 | no: a mark for compaction after a delete |
| offset 7 to 9 | c of A, B, A: position 5 | no: the position decreased, and everything below position 7 was read |
| offset 10, 11 | d of key 1, position 7, and its mark | no: it was read there |
| offset 12 | d of key 2, position 7 | yes: it was not read there |
| offset 13 | r of any row, any position | yes: a snapshot, which always starts from the beginning |

**Guarantees of the connector**: it writes the changes of one log in the log's order, and after a stop it continues from
the last offset that it has stored, which may be much earlier, even within a transaction or a page. So for one log, and
in one partition, positions only increase, except at the start of a repetition, which has the same changes in the same
order. A change below the highest position was already read. One at the highest position was read if it is one of those
that were read there and have not been repeated in this run. If a position can have several identical changes, like a
page of PostgreSQL's COPY into a table without a key, a repetition starts only where the connector paused for a second,
which a start takes, or where a change was written before its predecessor, as by a producer that sends a batch twice.

**Another log**: a change below the highest position that was made after all changes that were read is not a repeat. The
database was restored, or another server has its name: refused until `accept-loss` continues. A snapshot whose
rows are below the highest position belongs to another log, too, unless it comes in the middle of a repetition or
is incremental: positions start over automatically.

**Undecidable cases**: identical rows that share a position, if the connector paused for a second between
them (treated as repeats), or was stopped in the middle of them (as many are read as came in one run); the rows of
a snapshot that did not end and is restarted (read again); another server's changes below
the highest position that were made before the newest one (treated as repeats), and all above it (read). Identical
rows are distinct if the connector numbers the changes of a transaction (``provide.transaction.metadata``).

The epoch log keeps the last position of each log in each partition. Changes without a position,
such as other connectors', and rows of snapshots, including incremental ones, are never repeats. Held by
``tests/infra/sources/debezium/test_repeats.py``.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from rivermeet.infra.sources.debezium.envelope import Change, Envelope, Position
from rivermeet.infra.sources.kafka.landing import Payloads
from rivermeet.pipelines.errors import RivermeetError

_SILENCE = 1_000_000_000
"""Nanoseconds within which a stopped connector cannot have restarted."""
_BYTES = 8


class AnotherLogError(RivermeetError):
    """A change at a lower position than those that were read, but made after them."""

    remedy = "Run `rivermeet accept-loss`, or read a new topic with a new snapshot."


@dataclass
class _Seen:
    """The changes of a log in a partition that were read.

    ``position`` is the highest one, ``there`` the digests of the changes that were read at it, with their counts, and
    ``left`` those that may still be repeated in the current run. ``committed`` is when the newest change of all was
    made (ms), ``written`` when the last record was written (ns). ``first`` is the change that ``there`` does not
    include yet: most positions have one, whose digest is never needed.
    """

    position: Position | None = None
    there: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    committed: int | None = None
    written: int | None = None
    first: tuple[bytes | None, Change] | None = None

    def digests(self) -> Counter[str]:
        if self.first is not None:
            self.there[_digest(*self.first)] += 1
            self.first = None
        return self.there

    def began_again(self, change: Change) -> bool:
        """Whether the connector, or its producer, restarted with this change."""
        if self.written is None or change.written is None:
            return False
        passed = change.written - self.written
        return passed >= _SILENCE or passed < 0 or (change.exact and passed == 0)


@dataclass
class _Partition:
    """The logs that have changes in a partition, and op and key of the last record."""

    logs: dict[str, _Seen] = field(default_factory=dict)
    op: str | None = None
    key: bytes | None = None


@dataclass
class Repeats:
    """The changes of a topic that were read so far, and the numbers of records that were skipped.

    ``anew`` says whether another log is read from there on, and not refused; ``absent``, whether any record lacks, or
    may lack, an unchanged value. ``marks`` are nulls after deletes, and ``messages`` have no row.
    """

    partitions: dict[int, _Partition] = field(default_factory=dict)
    anew: bool = False
    repeats: int = 0
    marks: int = 0
    messages: int = 0
    absent: bool = False

    def find_passed(self, given: Payloads, decoded: Sequence[Any]) -> list[bool]:
        """Which records to skip; a value that is no envelope is not skipped, but a dead letter."""
        found = [one if isinstance(one, Envelope) else None for one in decoded]
        return [
            (value is None or envelope is not None) and self.passes_over(partition, key, envelope)
            for partition, key, value, envelope in zip(given.partition, given.key, given.value, found, strict=True)
        ]

    def passes_over(self, partition: int, key: bytes | None, envelope: Envelope | None) -> bool:
        """Whether to skip a record; ``envelope`` is None if it has none. One of another log is an AnotherLogError."""
        seen = self.partitions.setdefault(partition, _Partition())
        if envelope is None:
            mark = seen.op == "d" and seen.key == key
            seen.op, seen.key = None, None
            self.marks += mark
            return mark
        if envelope.op == "m":
            self.messages += 1
            return True
        repeated = envelope.change is not None and self._is_repeat(seen.logs, key, envelope.change)
        # A repeated delete is followed by its mark, too.
        seen.op, seen.key = envelope.op, key
        self.repeats += repeated
        self.absent |= envelope.absent and not repeated
        return repeated

    def _is_repeat(self, logs: dict[str, _Seen], key: bytes | None, change: Change) -> bool:
        seen = logs.get(change.log)
        if seen is None:
            # The state of an older version names no log.
            logs[change.log] = seen = logs.pop("", None) or _Seen()
        place = 1 if seen.position is None else _compare_positions(change.position, seen.position)
        if change.snapshot:
            # A requested snapshot is repeated in the middle of a run; a connector's first one has no commit yet.
            if place < 0 and change.begins and not (change.position[0] and +seen.left):
                logs[change.log] = _Seen()
            return False
        if place < 0 and (change.committed or 0) > (seen.committed or change.committed or 0):
            if not self.anew:
                below = f"at {list(change.position)}, below {list(seen.position or ())} that was read"
                raise AnotherLogError(below, position=change.position)
            logs[change.log] = seen = _Seen()
            place = 1
        repeated = place < 0 or (place == 0 and _comes_again(seen, key, change))
        if place < 0:
            seen.left = seen.digests().copy()
        if place > 0:
            seen.position, seen.first = change.position, (key, change)
            seen.there, seen.left = Counter(), Counter()
        if not repeated:
            seen.committed = max(seen.committed or 0, change.committed or 0)
        seen.written = change.written
        return repeated

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers of skipped records, by name; empty if there are none."""
        found = {"repeats": self.repeats, "delete_marks": self.marks, "messages": self.messages}
        return {name: count for name, count in found.items() if count}

    def to_json(self, topic_id: str) -> str:
        """The state for the next epoch, as JSON."""
        parts = {
            str(partition): {
                "logs": {
                    log: [one.position, one.digests(), +one.left, one.committed, one.written]
                    for log, one in sorted(found.logs.items())
                },
                "last": [found.op, _text(found.key)],
            }
            for partition, found in sorted(self.partitions.items())
        }
        return json.dumps({"topic": topic_id, "partitions": parts})

    @classmethod
    def of(cls, kept: str | None, topic_id: str, anew: bool = False) -> Repeats:
        """The state of an earlier epoch; empty for another topic."""
        found = json.loads(kept) if kept else {}
        partitions = found["partitions"] if found.get("topic") == topic_id else {}
        return cls({int(number): _partition(part) for number, part in partitions.items()}, anew)


def _comes_again(seen: _Seen, key: bytes | None, change: Change) -> bool:
    """Whether a change at the highest position was read there; if not, it is recorded."""
    digest, there = _digest(key, change), seen.digests()
    if there[digest] and (not change.shared or seen.began_again(change)):
        seen.left = there.copy()
    # The state of an older version contains keys.
    again = next((each for each in (digest, _text(key)) if seen.left[each] > 0), None)
    if again is None:
        there[digest] += 1
        return False
    seen.left[again] -= 1
    return True


def _compare_positions(found: Position, top: Position) -> int:
    """Whether a position is before another one (-1), after it (1), or the same (0).

    The first transaction after a connector's start has no commit before it: its position is (0, LSN). A commit comes
    after all changes of its transaction, so an LSN can be compared with commits.
    """
    if found[0] == 0 and top[0] > 0:
        return 1 if found[1] > max(top[:2]) else -1
    if top[0] == 0 and found[0] > 0:
        if found[0] > top[1]:
            return 1
        found, top = found[1:], top[1:]
    return (found > top) - (found < top)


def _digest(key: bytes | None, change: Change) -> str:
    return blake2b(repr((key, change.content)).encode(), digest_size=_BYTES).hexdigest()


def _partition(kept: Any) -> _Partition:
    if isinstance(kept, dict):
        op, key = kept["last"]
        return _Partition({log: _parse_seen(*parts) for log, parts in kept["logs"].items()}, op, _bytes(key))
    # State of an older version: server, position and keys at its highest position, and the last op and key.
    place, keys, op, key, _ = kept
    seen = _parse_seen([*place[1:], 0], dict.fromkeys(keys, 1), {}, None, None) if place else _Seen()
    return _Partition({"": seen}, op, _bytes(key))


def _parse_seen(
    position: list[int] | None,
    there: Mapping[str, int],
    left: Mapping[str, int],
    committed: int | None,
    written: int | None,
) -> _Seen:
    place = None if position is None else tuple(position)
    return _Seen(place, Counter(there), Counter(left), committed, written)


def _text(key: bytes | None) -> str:
    return "" if key is None else "=" + base64.b64encode(key).decode()


def _bytes(text: str) -> bytes | None:
    return base64.b64decode(text[1:]) if text else None
