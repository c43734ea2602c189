"""Payloads that name their schema: a zero byte, the schema's id in four bytes, the highest first, and the body.

| payload | schema | body |
|---|---|---|
| ``00 00000007 02 61`` | 7 | ``02 61`` |
| ``00 00000007`` | 7 | none |
| ``00 0007`` | none: too short | |
| ``7b 7d`` | none: JSON | |

Their values are read as JSON text; values that JSON cannot represent are text that Spark casts.

    the byte ff                      "/w==": base64
    Decimal("1.50")                  "1.50"
    1 ms after 1970 began, in UTC    "1970-01-01T00:00:00.001000+00:00"
    NaN                              "nan"

Held by ``tests/infra/sources/kafka/formats/test_formats.py`` and ``tests/infra/sinks/test_messages.py``.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from rivermeet.pipelines.errors import RivermeetError

MAGIC, HEADER = b"\x00", 5
"""A payload that names its schema starts with a zero byte and the schema's id in four, the highest first."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name of a field in Avro and in Protobuf."""


class UndecodableError(RivermeetError):
    """A payload that does not match its format; the message is the reason of its dead letter."""

    remedy = "Correct the format of the source, and run `rivermeet retry-dead-letters`."


Decode = Callable[[bytes], str]
"""Returns a payload's text; raises `UndecodableError` if it has none."""
Encode = Callable[[Mapping[str, Any]], bytes]
"""Returns the bytes of a row."""


def schema_id(payload: bytes | None) -> int | None:
    """The id of the schema that a payload names; None if it begins differently."""
    if payload is None or payload[:1] != MAGIC or len(payload) < HEADER:
        return None
    return int.from_bytes(payload[1:HEADER], "big")


def unframe(payload: bytes) -> tuple[int, bytes]:
    """The id of the writer's schema, and the body."""
    found = schema_id(payload)
    if found is None:
        raise UndecodableError(
            "names no schema: it does not begin with a zero byte and the id of one", size=len(payload)
        )
    return found, payload[HEADER:]


def frame(schema: int) -> bytes:
    """What stands in front of a body that is written with the schema of this id."""
    return MAGIC + schema.to_bytes(4, "big")


def as_json(value: Any) -> str:
    """A value as JSON."""
    try:
        return json.dumps(value, default=_to_json, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=_to_json)


def _to_json(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(type(value).__name__)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
