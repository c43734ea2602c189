"""Payloads that name their schema: a zero byte, the schema's id in four bytes, the highest first, and the body.

| payload | schema | body |
|---|---|---|
| ``00 00000007 02 61`` | 7 | ``02 61`` |
| ``00 00000007`` | 7 | none |
| ``00 0007`` | none: too short | |
| ``7b 7d`` | none: JSON | |

Held by ``tests/infra/sources/kafka/formats/test_formats.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

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
