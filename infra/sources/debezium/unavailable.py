"""The marker of a value that was not sent, in each type of column.

| PostgreSQL | the marker ``n/a`` is |
|---|---|
| text, varchar, json, jsonb, xml, citext, ltree, numeric as text, ``bytea`` as hex | ``"n/a"`` |
| bytea | the marker's bytes: ``"bi9h"`` in JSON, which has base64 |
| text[], varchar[], json[], jsonb[] | ``["n/a"]`` |
| bytea[] | ``["bi9h"]`` |
| int[], bigint[], date[] | ``[110, 47, 97]``: its bytes, each a number with a sign |
| uuid[] | ``["274b6819-2b05-3e26-8f12-8ff63bfcd4a4"]``: Java's name-based UUID of its bytes |
| hstore | ``{"n/a": "n/a"}``, or that as text |
| smallint[], numeric[], real[], float8[], boolean[], timestamp[], timestamptz[] | null, as NULL is |
| bytea and bytea[] as base64 by `binary.handling.mode` | null |

The connector's `unavailable.value.placeholder` is the marker; behind ``hex:`` it is written as bytes. Source:
Debezium 3.6.3's UnchangedToastedPlaceholder, and what it wrote of each type
(``tests/infra/sources/debezium/unsent.jsonl``). Held by
``tests/infra/sources/debezium/test_unavailable.py``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from hashlib import md5
from typing import Any
from uuid import UUID

DOUBTFUL = "?"
"""Prefix of a column's name in ``debezium_absent`` whose null may be a value that was not sent."""
_MARKED = ("STRING", "INT", "INTEGER", "BIGINT", "LONG", "DATE")
"""Types of elements of arrays that have a marker."""


def absence(marker: str) -> Callable[[Any], bool]:
    """Create the test for whether a value is ``marker``, the connector's `unavailable.value.placeholder`.

    Examples
    --------
    >>> is_absent = absence("n/a")
    >>> is_absent("n/a"), is_absent([110, 47, 97]), is_absent({"n/a": "n/a"}), is_absent("n")
    (True, True, True, False)
    """
    own = bytes.fromhex(marker[4:]) if marker.startswith("hex:") else marker.encode()
    text, in_json = own.decode("utf-8", "replace"), base64.b64encode(own).decode()
    named = str(UUID(bytes=md5(own, usedforsecurity=False).digest(), version=3))
    texts = {text, in_json, json.dumps({text: text}, ensure_ascii=False, separators=(",", ":"))}
    numbers = [byte - 256 if byte > 127 else byte for byte in own]
    lists = ([text], [in_json], [own], [named], [UUID(named)], numbers)

    def is_absent(value: Any) -> bool:
        if isinstance(value, str):
            return value in texts
        if isinstance(value, bytes):
            return value == own
        if isinstance(value, list):
            return value in lists
        return isinstance(value, dict) and value == {text: text}

    return is_absent


def may_be_absent(declared: str, written: str | None) -> bool:
    """Whether null in an update's column of this type may be a value that was not sent.

    ``written`` is the type of the column in the envelope's schema; None without a schema.

    Examples
    --------
    >>> may_be_absent("ARRAY<DOUBLE>", None), may_be_absent("ARRAY<INT>", None), may_be_absent("DOUBLE", None)
    (True, False, False)
    >>> may_be_absent("BINARY", "bytes"), may_be_absent("BINARY", "string"), may_be_absent("BINARY", None)
    (False, True, True)
    """
    kind = "".join(declared.upper().split())
    if kind == "BINARY":
        return written in (None, "string")
    return kind.startswith("ARRAY<") and kind.removeprefix("ARRAY<").removesuffix(">") not in _MARKED
