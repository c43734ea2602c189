"""A row that was not made of the records that are named says so."""

from __future__ import annotations

from typing import Any

import pytest

from rivermeet.joins.why.evidence import Found
from rivermeet.joins.why.words import find_disagreement
from tests.joins.why.given import two

LEFT, RIGHT = (Found(side, {"a": "k"}, {"v": f"of {side}"}, 1, 0, 0) for side in ("left", "right"))
GONE = Found("right", {"a": "k"}, None, 2, 0, 1)
NOTHING: Any = None


@pytest.mark.parametrize(
    ("value", "right", "says"),
    [
        ({"x": "of left", "y": "of right", "z": 1}, RIGHT, None),
        ({"x": "of left", "y": None, "z": 1}, NOTHING, None),
        ({"x": "of left", "y": None, "z": 1}, GONE, None),
        (None, RIGHT, None),
        (
            {"x": "of left", "y": "else", "z": 1},
            RIGHT,
            "its y is else, and that of the right record named here of right",
        ),
        ({"x": "of left", "y": "else", "z": 1}, NOTHING, "its y is else, and that of the right record named here null"),
        (
            {"x": "else", "y": "of right", "z": 1},
            RIGHT,
            "its x is else, and that of the left record named here of left",
        ),
    ],
)
def test_a_value_is_compared_with_the_records(value: Any, right: Any, says: str | None) -> None:
    left_table, right_table = two("table", "table", same_key=True)
    select = {"x": "left.v", "y": "right.`v`", "z": "length(left.v)"}
    operation = left_table.left_join(right_table, "n", select=select).operation
    assert operation is not None
    found = find_disagreement(operation, value, {"left": LEFT, "right": right})
    assert found == (None if says is None else f"not sure: {says}")
