"""Dead letters of a topic, decoded again from their stored bytes: the topic may have removed them long ago.

    epoch 1   orders/0, offset 7   {"value": "eA=="}     the value is not one JSON object …
    epoch 4   retries epoch 1, by ``Text()``             offset 7 is a record now, and comes after all that there is

A letter is stored completely, however long, and is retried with its own partition, offset, timestamp and headers. Held
by ``tests/infra/sources/kafka/test_bad_records.py``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.sources.kafka.landing import Lands, Payloads

AGAIN = -1
"""``file_rank`` of letters: before all records that are new."""


def letters_again(path: str, epochs: Sequence[int], landed: Lands) -> Iterator[pa.Table]:
    """The letters of these epochs as records to be landed; ``path`` is the table."""
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
        found = [kept for letter in batch.to_pylist() if (kept := _payloads(letter["text"], letter["header"]))]
        if found:
            rows = range(before, before + len(found))
            yield landed(AGAIN, [0] * len(found), rows, Payloads(*zip(*found, strict=True)))
            before += len(found)


def _payloads(text: str | None, header: str | None) -> tuple[Any, ...] | None:
    try:
        kept, origin = json.loads(text or ""), json.loads(header or "")
        headers = [{"key": h["key"], "value": _bytes(h.get("value"))} for h in kept.get("headers") or ()] or None
        place = origin["partition"], origin["offset"], origin["timestamp"]
        return *place, _bytes(kept.get("key")), _bytes(kept.get("value")), headers
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
