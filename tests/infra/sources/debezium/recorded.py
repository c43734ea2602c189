"""The recorded envelopes, and some of MySQL in their image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple


class Recorded(NamedTuple):
    """A record as the connector wrote it."""

    topic: str
    key: bytes | None
    value: bytes | None


def recorded(name: str, table: str = "orders") -> list[Recorded]:
    """Records of one table in one file, in their order."""
    lines = (Path(__file__).parent / f"{name}.jsonl").read_text("utf-8").splitlines()[1:]
    found = [json.loads(line) for line in lines]
    return [
        Recorded(one["topic"], one["key"] and one["key"].encode(), one["value"] and one["value"].encode())
        for one in found
        if one["topic"].endswith(f".{table}" if table else "")
    ]


def envelope(op: str, row: dict[str, Any] | None, **source: Any) -> bytes:
    """An envelope without a schema; of a delete ``row`` is what was there."""
    before, after = (row, None) if op == "d" else (None, row)
    return json.dumps({"before": before, "after": after, "source": source, "op": op, "ts_ms": 99}).encode()
