"""Values as JSON text; values that JSON cannot represent are text that Spark casts.

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
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID


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
