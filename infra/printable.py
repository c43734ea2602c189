r"""Data as a terminal, a log or a page may show it: what would steer whatever shows it is written as JSON writes it.

| in the data | shown |
|---|---|
| ESC [ 2 J, which clears a terminal; all of C0, DEL and C1 | ``\u001b[2J`` |
| a line break, also U+2028 and U+2029: it would look like a line of ours | ``\u000a`` |
| marks that turn the direction of writing, or have no width | ``\u202e`` |

A JSON text stays what it was: inside its strings these are the same characters.

Credentials in URLs are blotted out wherever a location or an engine's address is shown:

| given | shown |
|---|---|
| ``s3a://key:secret@lake/river`` | ``s3a://***@lake/river`` |
| ``sc://host:15002/;user_id=ann;token=abc`` | ``sc://host:15002/;user_id=ann;token=***`` |
| ``jdbc:postgresql://db/shop?user=ann&password=abc`` | ``jdbc:postgresql://db/shop?user=ann&password=***`` |
| ``abfss://container@account.dfs.core.windows.net/x`` | the same: the part before the @ names a container |

Held by ``tests/infra/test_printable.py`` and ``tests/infra/engine/test_doors.py``.
"""

from __future__ import annotations

import re
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


_END = r"\s'\"`"
_USER = re.compile(
    rf"(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs)://(?:[^/@{_END}]*:(?!\d+/)[^@{_END}]*|[^/@{_END}]+)@", re.IGNORECASE
)
_PARAMETER = re.compile(
    rf"([;?&][\w.-]*(?:token|secret|passw|pwd|key|sig|credential)[\w.-]*=)[^;&{_END}]+", re.IGNORECASE
)


def redact(text: str) -> str:
    """Text with ``***`` for what URLs in it hold of users, passwords, keys and tokens."""
    return _PARAMETER.sub(r"\1***", _USER.sub("://***@", text))
