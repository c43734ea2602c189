"""A key as it is typed: text for a key of one column, ``column=value`` for several, or a JSON object.

    N910DL                            {tail_number: N910DL}
    carrier=UA,flight=15              {carrier: UA, flight: 15}
    {"carrier": "UA", "flight": 15}   the same

Held by ``tests/assets/why/test_keys.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rivermeet.pipelines.errors import RivermeetError


class KeyTextError(RivermeetError):
    """A text that is no key of the node."""

    remedy = "Write the key as the message shows it: the value, `column=value,…` or a JSON object."


def parse_key(text: str, columns: pa.StructType, node: str) -> dict[str, Any]:
    """The key in the types of its columns.

    Parameters
    ----------
    columns
        Type of the node's key.

    Raises
    ------
    KeyTextError
        With the columns that the key has, and an example.
    """
    names = [field.name for field in columns]
    given = _split(text, names, node)
    if set(given) != set(names):
        wanted = ", ".join(f"{field.name} ({field.type})" for field in columns)
        raise KeyTextError(f"'{text}' names {', '.join(given)}; give all of {wanted} of '{node}'")
    return {field.name: _cast(given[field.name], field, node) for field in columns}


def _split(text: str, names: list[str], node: str) -> Mapping[str, Any]:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise KeyTextError(f"'{text}' is no JSON object: {error}") from None
    if len(names) == 1 and not text.startswith(f"{names[0]}="):
        return {names[0]: text}
    parts = [part.partition("=") for part in text.split(",")]
    if bad := next((name for name, sign, _ in parts if not sign), None):
        raise KeyTextError(f"'{bad}' of '{text}' is no column=value; a key of '{node}' has {', '.join(names)}")
    return {name.strip(): value for name, _, value in parts}


def _cast(value: Any, field: pa.Field, node: str) -> Any:
    if value is None:
        return None
    try:
        if pa.types.is_timestamp(field.type) and isinstance(value, str):
            value = value.removesuffix("Z")
            return pa.scalar(value).cast(pa.timestamp("us")).cast(field.type).as_py()
        return pa.scalar(value).cast(field.type).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise KeyTextError(f"'{value}' is no {field.type}, which '{field.name}' of '{node}' is") from None
