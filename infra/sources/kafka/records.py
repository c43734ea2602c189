"""Consumed records with their place in the epoch: by offset within a partition, by time between partitions.

| partition | offset | timestamp | block | place |
|---|---|---|---|---|
| 0 | 7 | 1000 | 1000 | first |
| 0 | 8 | 900 | 1000 | third: after its partition's offset 7, and after what came with an earlier time |
| 1 | 3 | 950 | 950 | second where the records are hashed anew, alone where they stay in their partitions |

``block`` is the running maximum of the timestamp within the partition and the slice: without it, a year of partition 0
would come before partition 1, and close all of its windows. Held by ``tests/infra/sources/kafka/test_reading.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from infra.epochs.plan import TopicSlice
from infra.sources.kafka.debezium.repeats import Repeats
from infra.sources.kafka.formats.decoding import decoder
from infra.sources.kafka.formats.framing import schema_id
from infra.sources.kafka.formats.registry import Registry
from infra.sources.kafka.landing import Landed
from infra.sources.kafka.letters import Payloads
from pipelines import JSON, Avro, Debezium, Kafka, Protobuf
from pipelines.reads.kafka import Format

if TYPE_CHECKING:
    from confluent_kafka import Message

Place = tuple[int, int, int]
Lands = Callable[[Place, Payloads], Landed | None]


def landing_of(topic: Kafka, registry: Registry, seen: Repeats | None = None) -> Lands:
    """What gives a record as it lands, of its place and its payloads; None for one that is passed over.

    Parameters
    ----------
    seen
        What was read of a topic of envelopes so far; None: nothing is passed over.
    """
    key_of, value_of = decoder(topic.key, "key", registry), decoder(topic.value, "value", registry)
    key_named, value_named = _names_schema(topic.key), _names_schema(topic.value)

    def landed(place: Place, payloads: Payloads) -> Landed | None:
        partition, offset, timestamp, key, value, headers = payloads
        found, made = key_of(key), value_of(value)
        envelope = made.envelope
        if seen is not None and (value is None or envelope is not None) and seen.passes_over(partition, key, envelope):
            return None
        return Landed(
            *place,
            partition,
            offset,
            timestamp,
            key,
            value,
            found.text,
            made.text,
            schema_id(key) if key_named else None,
            schema_id(value) if value_named else None,
            headers,
            found.problem or made.problem,
        )

    return landed


def taken(messages: Iterable[Message], planned: TopicSlice, landed: Lands) -> Iterator[Landed]:
    """The messages of a slice as they land."""
    heads: dict[int, int] = {}
    for message in messages:
        payloads = _payloads(message)
        partition, offset, timestamp = payloads[:3]
        heads[partition] = max(heads.get(partition, timestamp), timestamp)
        # Unique, and in the order of the offsets: no two partitions have the same remainder.
        row = offset * len(planned.ranges) + partition
        if (record := landed((0, heads[partition], row), payloads)) is not None:
            yield record


def _payloads(message: Message) -> Payloads:
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    given = message.headers()
    headers: list[dict[str, Any]] | None = [{"key": key, "value": value} for key, value in given] if given else None
    return partition, offset, message.timestamp()[1], _bytes(message.key()), _bytes(message.value()), headers


def _bytes(payload: bytes | str | None) -> bytes | None:
    return payload.encode() if isinstance(payload, str) else payload


def _names_schema(format: Format | None) -> bool:
    """Whether payloads may begin with the id of a schema."""
    bare = (isinstance(format, Avro) and format.writer) or (isinstance(format, Protobuf) and format.descriptor)
    return isinstance(format, JSON | Avro | Protobuf | Debezium) and not bare
