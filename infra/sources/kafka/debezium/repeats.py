"""Which records of a partition say again what was read: Debezium repeats changes after a restart, and itself.

| partition 0 | record | is read |
|---|---|---|
| offset 0 | c, key 1, position 5 | yes |
| offset 1 | d, key 1, position 7 | yes: a tombstone |
| offset 2 | no value, key 1 | no: a mark for compaction, behind the delete that it repeats |
| offset 3 | c, key 4, position 7 | yes: an update of the key is a delete and an insert of one position |
| offset 4 | c, key 1, position 5 | no: a repeat, its position lies behind |
| offset 5 | d, key 1, position 7 | no: a repeat, the key was there at this position |
| offset 6 | r, key 1, position 3 | yes: a new snapshot, and positions begin anew |

Offsets do not show repeats; positions do, within a partition. A mark without its delete, which compaction has removed,
is a delete. What was seen last of each partition goes from epoch to epoch in the epoch log. Changes without a position,
and those of a snapshot that runs beside the stream, are never repeats. Held by
``tests/infra/sources/kafka/debezium/test_repeats.py``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from infra.sources.kafka.debezium.envelope import Envelope, Position


@dataclass
class _Seen:
    """What was seen last of a partition: the highest position with the keys there, and the newest op and key.

    ``start`` is the highest position before a commit was known: of a snapshot, and of the transaction behind it.
    """

    position: Position | None = None
    keys: set[bytes | None] = field(default_factory=set)
    op: str | None = None
    key: bytes | None = None
    start: Position | None = None


@dataclass
class Repeats:
    """What was read of a topic so far.

    Attributes
    ----------
    repeats, marks, messages
        How many records were passed over: repeats, nulls behind deletes, and messages that are of no row.
    absent
        Whether any record lacks a value that was not changed.
    """

    partitions: dict[int, _Seen] = field(default_factory=dict)
    repeats: int = 0
    marks: int = 0
    messages: int = 0
    absent: bool = False

    def passes_over(self, partition: int, key: bytes | None, value: Envelope | None) -> bool:
        """Whether a record is to be passed over; ``value`` is None where it has none."""
        seen = self.partitions.setdefault(partition, _Seen())
        if value is None:
            mark = seen.op == "d" and seen.key == key
            seen.op, seen.key = None, None
            self.marks += mark
            return mark
        if value.op == "m":
            self.messages += 1
            return True
        repeated = self._is_repeat(seen, key, value)
        # A repeated delete has its mark behind it, too.
        seen.op, seen.key = value.op, key
        self.repeats += repeated
        self.absent |= value.absent and not repeated
        return repeated

    def _is_repeat(self, seen: _Seen, key: bytes | None, value: Envelope) -> bool:
        place = value.position
        if place is None or value.incremental:
            return False
        begins = value.op == "r" and seen.op != "r"
        if seen.position is not None and not begins and place[:2] == ("", 0) and seen.position[1] > 0:
            # A connector that does not know the last commit says nothing of the order, but for where it began.
            return seen.start is not None and place <= seen.start
        same_log = seen.position is not None and seen.position[0] == place[0]
        if seen.position is None or not same_log or place > seen.position or (begins and place != seen.position):
            if place[:2] == ("", 0):
                seen.start = place
            seen.position, seen.keys = place, {key}
            return False
        if place < seen.position or key in seen.keys:
            return True
        seen.keys.add(key)
        return False

    @property
    def counted(self) -> Mapping[str, int]:
        """What was passed over, by name; nothing where there was none."""
        found = {"repeats": self.repeats, "delete_marks": self.marks, "messages": self.messages}
        return {name: count for name, count in found.items() if count}

    def kept(self, topic_id: str) -> str:
        """What the next epoch has to know, as JSON."""
        parts = {
            str(partition): [seen.position, sorted(map(_text, seen.keys)), seen.op, _text(seen.key), seen.start]
            for partition, seen in sorted(self.partitions.items())
        }
        return json.dumps({"topic": topic_id, "partitions": parts})

    @classmethod
    def of(cls, kept: str | None, topic_id: str) -> Repeats:
        """What an epoch has kept; nothing of another topic."""
        found = json.loads(kept) if kept else {}
        if found.get("topic") != topic_id:
            return cls()
        return cls(
            {
                int(partition): _Seen(_place(place), set(map(_bytes, keys)), op, _bytes(key), _place(start))
                for partition, (place, keys, op, key, start) in found["partitions"].items()
            }
        )


def _place(kept: list[int | str] | None) -> Position | None:
    return None if kept is None else tuple(kept)


def _text(key: bytes | None) -> str:
    return "" if key is None else "=" + base64.b64encode(key).decode()


def _bytes(text: str) -> bytes | None:
    return base64.b64decode(text[1:]) if text else None
