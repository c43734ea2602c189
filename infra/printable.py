r"""Data as a terminal, a log or a page may show it: what would steer whatever shows it is written as JSON writes it.

| in the data | shown |
|---|---|
| ESC [ 2 J, which clears a terminal; all of C0, DEL and C1 | ``\u001b[2J`` |
| a line break, also U+2028 and U+2029: it would look like a line of ours | ``\u000a`` |
| marks that turn the direction of writing, or have no width | ``\u202e`` |

A JSON text stays what it was: inside its strings these are the same characters. Held by
``tests/infra/test_printable.py``.
"""

from __future__ import annotations

import unicodedata

_STEERS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str, keep: str = "") -> str:
    """The text with such characters escaped, but for those to keep, such as the line breaks that are ours."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or unicodedata.category(c) not in _STEERS else _escape(c) for c in text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
