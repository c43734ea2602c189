"""Dead letters that name a key, of files, of topics, and of records that cannot be joined."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import pytest

from rivermeet.assets.why.changelogs import letters_of


class Changelog:
    """What is asked of one: its node's name, and its letters."""

    class node:
        name = "planes"

    def __init__(self, **letter: Any) -> None:
        self.letter = {"epoch": 1, "reason": "wrong", **letter}

    def letters(self) -> list[dict[str, Any]]:
        return [self.letter]


def of_file(text: str) -> dict[str, Any]:
    return {"file": "a.csv", "line": 7, "position": 1, "text": text, "header": "tail,year"}


def of_topic(key: bytes) -> dict[str, Any]:
    kept = {"key": base64.b64encode(key).decode(), "value": base64.b64encode(b"{}").decode()}
    return {"file": "planes/0", "line": 70, "position": 1, "text": json.dumps(kept), "header": "{}"}


def of_join(key: str) -> dict[str, Any]:
    return {"side": "right", "partition": 0, "offset": 3, "key": key, "value": "{}"}


@pytest.mark.parametrize(
    ("letter", "keys", "place"),
    [
        (of_file("N1,x"), {"left": {"tail": "N1"}}, "a.csv, line 7"),
        (of_file("N10,x"), {"left": {"tail": "N1"}}, None),
        (of_file("N1,x"), {"left": {"tail": "N1", "seats": 4}}, None),
        (of_file("N1,4,x"), {"left": {"tail": "N1", "seats": 4}}, "a.csv, line 7"),
        (of_topic(b"N1"), {"left": {"tail": "N1"}}, "planes/0, line 70"),
        (of_topic(b"N2"), {"left": {"tail": "N1"}}, None),
        (of_join('{"tail":"N1"}'), {"right": {"tail": "N1"}}, "right record, partition 0, offset 3"),
        (of_join('{"tail":"N1"}'), {"left": {"tail": "N1"}}, None),
        (of_join('{"tail":"N2"}'), {"right": {"tail": "N1"}}, None),
    ],
)
def test_a_letter_names_a_key(letter: dict[str, Any], keys: Any, place: str | None) -> None:
    found = letters_of(cast(Any, Changelog(**letter)), keys)
    assert [one.place for one in found] == ([] if place is None else [place])
