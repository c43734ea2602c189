"""Consumed records with their order in the epoch: by offset within a partition, by time between partitions.

| partition | offset | timestamp | block | place |
|---|---|---|---|---|
| 0 | 7 | 1000 | 1000 | first |
| 0 | 8 | 900 | 1000 | third: after its partition's offset 7, and after records with an earlier time |
| 1 | 3 | 950 | 950 | second if the records are rehashed; otherwise alone in its partition |

``block`` is the running maximum of the timestamp within the partition and the slice: without it, a year of partition 0
would come before partition 1, and close all of its windows. Held by ``tests/infra/sources/kafka/test_reading.py`` and
``tests/infra/sources/kafka/test_bad_records.py``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.kafka.formats.codecs import Decoder
from rivermeet.infra.kafka.formats.framing import schema_id
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.pipelines import Avro, Kafka, Protobuf
from rivermeet.pipelines.reads.kafka import Format, Objects, OtherFormat

if TYPE_CHECKING:
    from confluent_kafka import Message

SCHEMA = pa.schema(
    [
        ("file_rank", pa.int32()),
        ("block", pa.int64()),
        ("row", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("key_text", pa.string()),
        ("value_text", pa.string()),
        ("key_schema", pa.int64()),
        ("value_schema", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("problem", pa.string()),
    ]
)


AGAIN = -1
"""``file_rank`` of letters: before all records that are new."""


class Payloads(NamedTuple):
    """Records as they were consumed, by column: timestamps in ms, headers as ``key`` and ``value``."""

    partition: Sequence[int]
    offset: Sequence[int]
    timestamp: Sequence[int]
    key: Sequence[bytes | None]
    value: Sequence[bytes | None]
    headers: Sequence[list[dict[str, Any]] | None]


Lands = Callable[[int, Sequence[int], Sequence[int], Payloads], pa.Table]
"""Builds rows of ``SCHEMA`` from a ``file_rank``, the ``block`` and ``row`` of each record, and the records."""


Passed = Callable[[Payloads, Sequence[Any]], Sequence[bool]]
"""Says which records to skip, from them and their decoded values."""


def landing_of(topic: Kafka, decoders: Mapping[str, Decoder | None], passed: Passed | None = None) -> Lands:
    """Create the builder of rows to be landed; ``passed`` says which records are skipped, if any are."""
    named = {place for place, format in (("key", topic.key), ("value", topic.value)) if _names_schema(format)}

    def land(file_rank: int, block: Sequence[int], row: Sequence[int], given: Payloads) -> pa.Table:
        columns: dict[str, Sequence[Any]] = {"block": block, "row": row, **given._asdict()}
        columns["file_rank"] = [file_rank] * len(row)
        problems: list[Sequence[str | None]] = []
        decoded: dict[str, Sequence[Any]] = {}
        for place, decode in decoders.items():
            if decode is not None:
                decoded[place] = found = [decode(payload) for payload in columns[place]]
                columns[f"{place}_text"] = [one.text for one in found]
                problems.append([one.problem for one in found])
            if place in named:
                columns[f"{place}_schema"] = [schema_id(payload) for payload in columns[place]]
        if problems:
            columns["problem"] = [next(filter(None, each), None) for each in zip(*problems, strict=True)]
        arrays = [
            pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(len(row), field.type)
            for field in SCHEMA
        ]
        table = pa.table(arrays, SCHEMA)
        if passed is None:
            return table
        return table.filter(pa.array([not over for over in passed(given, decoded["value"])], pa.bool_()))

    return land


def build_rows(batches: Iterable[Sequence[Message]], planned: TopicSlice, landed: Lands) -> Iterator[pa.Table]:
    """The messages of a slice as rows to be landed."""
    heads: dict[int, int] = {}
    for messages in batches:
        given = _payloads(messages)
        block: list[int] = []
        for partition, timestamp in zip(given.partition, given.timestamp, strict=True):
            heads[partition] = head = max(heads.get(partition, timestamp), timestamp)
            block.append(head)
        # Unique, and in the order of the offsets: no two partitions have the same remainder.
        many = len(planned.ranges)
        row = [o * many + p for o, p in zip(given.offset, given.partition, strict=True)]
        yield landed(0, block, row, given)


def _payloads(messages: Sequence[Message]) -> Payloads:
    headers = [message.headers() for message in messages]
    # By column: a million records take a dozen million calls, and nothing else.
    return Payloads(
        cast(list[int], [message.partition() for message in messages]),
        cast(list[int], [message.offset() for message in messages]),
        [message.timestamp()[1] for message in messages],
        cast(list[bytes | None], [message.key() for message in messages]),
        cast(list[bytes | None], [message.value() for message in messages]),
        [[{"key": k, "value": v} for k, v in cast(Any, found)] if found else None for found in headers],
    )


def _names_schema(format: Format | None) -> bool:
    bare = (isinstance(format, Avro) and format.writer) or (isinstance(format, Protobuf) and format.descriptor)
    return isinstance(format, Objects) and not isinstance(format, OtherFormat) and not bare


def letters_again(path: str, epochs: Sequence[int], landed: Lands) -> Iterator[pa.Table]:
    """The dead letters of these epochs, decoded again from their stored bytes; ``path`` is their table.

        epoch 1   orders/0, offset 7   {"value": "eA=="}     the value is not one JSON object …
        epoch 4   retries epoch 1, by ``Text()``             offset 7 is a record now, and comes after all that there is

    The topic may have removed them long ago. A letter is stored completely, however long, and is retried with its own
    partition, offset, timestamp and headers.
    """
    table = open_table(path)
    if table is None:
        return
    wanted = pc.field("epoch").isin(list(epochs)) & (pc.field("position") > 0)
    columns = ["epoch", "file", "position", "text", "header"]
    letters = table.to_pyarrow_dataset().to_table(columns, filter=wanted)
    in_order = letters.sort_by([(name, "ascending") for name in ("epoch", "file", "position")])
    before = 0
    for batch in in_order.to_batches(1000):
        # A letter of files that the source read before cannot be retried: it has no bytes of a record.
        found = [kept for letter in batch.to_pylist() if (kept := _read_kept(letter["text"], letter["header"]))]
        if found:
            rows = range(before, before + len(found))
            yield landed(AGAIN, [0] * len(found), rows, Payloads(*zip(*found, strict=True)))
            before += len(found)


def _read_kept(text: str | None, header: str | None) -> tuple[Any, ...] | None:
    try:
        kept, origin = json.loads(text or ""), json.loads(header or "")
        headers = [{"key": h["key"], "value": _unpack(h.get("value"))} for h in kept.get("headers") or ()] or None
        place = origin["partition"], origin["offset"], origin["timestamp"]
        return *place, _unpack(kept.get("key")), _unpack(kept.get("value")), headers
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _unpack(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
