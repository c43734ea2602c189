"""KIP-213's messages: what two sides that only write to each other can end up with.

    right f x      left k f|1  sends (f, k, hash of f|1, answer if there is a right row)
                   left k f|2  sends (f, k, hash of f|2, answer if there is a right row)
    deliver to f   answers k with (hash of f|1, x)
    deliver to k   dropped: k is f|2 now
    deliver both   (f|2, x), once

A channel per foreign key in each direction keeps its own order; between channels any order is
legal. Instructions are those of 4.3.1. For an inner join they lose a tombstone in three races:

    right f null, left k f|2       the fan-out's null is stale, f|2 gets no answer without a right row
    left k null, left k g|1        the delete's null is stale, an insert gets none without a right row
    left k |1, left k |2           the unsubscription's null is stale, and from null to null nothing is sent

The row (f|1, x) then stays for ever. With `always_answer` an inner join asks as a left join does, and each
interleaving ends as the record-by-record join. Timestamps are left out: 0 after a delete, else the left row's.

Source: golden `s001.race.*`, `s001.fkchange.*`, `s001.instructions`, `s001.combined_key`.
"""

import hashlib
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rivermeet.joins.foreign_key.reference.join import answer, tombstone
from rivermeet.joins.reference.records import Record, Row, key_bytes, put


class Instruction(Enum):
    DELETE_KEY_NO_PROPAGATE = "end the subscription silently"
    DELETE_KEY_AND_PROPAGATE = "end it and answer null"
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = "subscribe, always answer"
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = "subscribe, answer if the right row exists"


ENDS = {Instruction.DELETE_KEY_NO_PROPAGATE, Instruction.DELETE_KEY_AND_PROPAGATE}
ANSWERS_NULL = {Instruction.DELETE_KEY_AND_PROPAGATE, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE}


@dataclass(frozen=True)
class Subscription:
    foreign_key: Any
    key: Any
    hash: bytes | None
    instruction: Instruction


@dataclass(frozen=True)
class Response:
    key: Any
    hash: bytes | None
    right: Record | None


Extract = Callable[[Any, Any], Any]
Channel = tuple[str, Any]  # ("asks" or "answers", foreign key)


class SubscriptionProtocol:
    """Tables, subscription store and messages under way. `hashed=False` joins any answer, also a stale one."""

    def __init__(self, how: str, extract: Extract, hashed: bool = True, always_answer: bool = False) -> None:
        self.how, self.extract, self.hashed = how, extract, hashed
        self.always_answer = always_answer or how == "left"
        self.left: dict[Any, Record] = {}
        self.right: dict[Any, Record] = {}
        self.store: dict[bytes, tuple[Any, bytes | None]] = {}
        self.channels: dict[Channel, deque[Subscription | Response]] = {}

    def change(self, x: Record) -> None:
        """A record of either side; what it sends waits in the channels."""
        if x.key is None:
            return
        if x.side == "left":
            old = self.left.get(x.key)
            put(self.left, x)
            for subscription in self._subscriptions(old, x):
                self._send("asks", subscription.foreign_key, subscription)
            return
        put(self.right, x)
        prefix = prefix_bytes(x.key)
        for combined in sorted(c for c in self.store if c.startswith(prefix)):
            key, value_hash = self.store[combined]
            self._send("answers", x.key, Response(key, value_hash, self.right.get(x.key)))

    def _subscriptions(self, old: Record | None, x: Record) -> list[Subscription]:
        before = None if old is None else self.extract(old.key, old.value)
        now = None if x.value is None else self.extract(x.key, x.value)
        i = Instruction

        def to(foreign_key: Any, instruction: Instruction) -> Subscription:
            return Subscription(foreign_key, x.key, value_hash_of(x.value), instruction)

        ended = [to(before, i.DELETE_KEY_NO_PROPAGATE)] if before is not None and before != now else []
        if self.always_answer:
            nothing = old is None and x.value is None
            return [] if nothing else [*ended, to(now, i.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)]
        if now is None:
            return [] if before is None else [to(before, i.DELETE_KEY_AND_PROPAGATE)]
        if ended:
            return [*ended, to(now, i.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)]
        return [to(now, i.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE)]

    def _send(self, direction: str, foreign_key: Any, message: Subscription | Response) -> None:
        self.channels.setdefault((direction, foreign_key), deque()).append(message)

    def waiting(self) -> list[Channel]:
        return [channel for channel, messages in self.channels.items() if messages]

    def deliver(self, channel: Channel) -> list[Row]:
        """The channel's next message. No row from an answer: it was dropped as stale."""
        message = self.channels[channel].popleft()
        if isinstance(message, Response):
            return self._join(message)
        combined = prefix_bytes(message.foreign_key) + key_bytes(message.key)
        if message.instruction in ENDS:
            self.store.pop(combined, None)
        elif message.foreign_key is not None:
            self.store[combined] = (message.key, message.hash)
        right = None if message.instruction in ENDS else self.right.get(message.foreign_key)
        if right is not None or message.instruction in ANSWERS_NULL:
            self._send("answers", message.foreign_key, Response(message.key, message.hash, right))
        return []

    def _join(self, response: Response) -> list[Row]:
        left = self.left.get(response.key)
        if self.hashed and response.hash != (None if left is None else value_hash_of(left.value)):
            return []
        if left is None:
            gone = Record("left", response.key, None, 0)
            return [tombstone(gone, gone, 0)]
        if response.right is None and self.how == "inner":
            return [tombstone(left, left, left.timestamp)]
        return [answer(left, left, response.right, left.timestamp)]


def prefix_bytes(foreign_key: Any) -> bytes:
    """Length first, so that no scan for "f" finds a subscriber of "ff"."""
    key = b"" if foreign_key is None else key_bytes(foreign_key)
    return len(key).to_bytes(4, "big") + key


def value_hash_of(value: Any) -> bytes | None:
    """128 bits of the serialized value, as Kafka's Murmur3; None for a deleted row."""
    return None if value is None else hashlib.blake2b(json.dumps(value).encode(), digest_size=16).digest()
