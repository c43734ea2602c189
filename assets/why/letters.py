"""Dead letters of a key: rows of a source that name it and are no records, and records that no row can be made of.

    planes, key N1    "N1,x,BOEING"  column 'year': 'x' is not INT      shown
                      "N10,y,BOEING" column 'year': 'y' is not INT      not: N10 is another word

A row that did not parse has no key: its text is looked through for the key's values. Held by
``tests/assets/why/test_letters.py``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rivermeet.assets.why.changelogs import Changelog, Row
from rivermeet.joins.why.evidence import Key


@dataclass(frozen=True)
class Letter:
    """A dead letter: where it stands, its text, and why it is no record."""

    node: str
    place: str
    text: str | None
    reason: str
    epoch: int


def letters_of(changelog: Changelog, keys: Mapping[str, Key | None]) -> list[Letter]:
    """The letters that name a key: of a computed node by side, as each input has it; of a source as ``left``."""
    found: list[Letter] = []
    for letter in changelog.letters():
        side = letter.get("side") or "left"
        key = keys.get(side)
        if key is None:
            continue
        text, place = _text(letter), _place(letter)
        if "side" in letter:
            named = json.loads(letter["key"]) if letter["key"] else None
            if named is None or {c: str(v) for c, v in named.items()} != {c: str(v) for c, v in key.items()}:
                continue
        elif text is None or not _names(text, key):
            continue
        found.append(Letter(changelog.node.name, place, text, letter["reason"], letter["epoch"]))
    return found


def _place(letter: Row) -> str:
    if "side" in letter:
        return f"{letter['side']} record, partition {letter['partition']}, offset {letter['offset']}"
    line = letter["line"] if letter["line"] is not None else f"{letter['position']} of the bad ones"
    return f"{letter['file']}, line {line}"


def _text(letter: Row) -> str | None:
    """The letter's row; of a topic's the bytes of key and value as text."""
    text = letter.get("text", letter.get("value"))
    if "side" in letter or text is None or not text.startswith("{"):
        return text
    try:
        kept = json.loads(text)
        parts = [base64.b64decode(kept[part]).decode("utf-8", "replace") for part in ("key", "value") if kept.get(part)]
    except (ValueError, TypeError, AttributeError):
        return text
    return " ".join(parts) or text


def _names(text: str, key: Mapping[str, Any]) -> bool:
    """Whether a text has all texts and whole numbers of a key as words; a time may be spelled otherwise there."""
    words = [str(value) for value in key.values() if isinstance(value, str | int)]
    return bool(words) and all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words)
