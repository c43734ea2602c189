"""Whether the records that are named give the row's value, as far as its columns are columns of theirs.

    select   {name: right.name, twice: left.n * 2}      name is compared, twice is not
    row      name = x       right record  name = y      "its name is x, and that of the right record y"

It guards what explanations leave out, such as records that a versioned table dropped as too old. Held by
``tests/joins/why/test_agreement.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rivermeet.joins.why.evidence import Found, shown
from rivermeet.pipelines import Operation

_COLUMN = re.compile(r"\s*(left|right)\.`?(\w+)`?\s*", re.IGNORECASE)


def disagreement(
    operation: Operation, value: Mapping[str, Any] | None, parts: Mapping[str, Found | None]
) -> str | None:
    """What differs between a live row and the records that it is said to be made of; None where nothing does."""
    if value is None or not operation.joins_sides or not {"left", "right"} <= set(parts):
        return None
    for column, made in operation.select.items():
        match = _COLUMN.fullmatch(made) if isinstance(made, str) else None
        if match is None or column not in value:
            continue
        side, name = match[1].lower(), match[2]
        part = parts[side]
        seen = {} if part is None or part.value is None else {**(part.key or {}), **part.value}
        # A view's columns may be others than those of the table that stands for it.
        if seen and name not in seen:
            continue
        theirs = seen.get(name)
        if theirs != value[column] and not (theirs != theirs and value[column] != value[column]):
            own = shown(value[column])
            return f"not sure: its {column} is {own}, and that of the {side} record named here {shown(theirs)}"
    return None
