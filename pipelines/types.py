"""Spark SQL types as they are declared: names of fields keep the case that they are written in.

    struct<cityName: string, `zip code`: int>    STRUCT<cityName: STRING, `zip code`: INT>
    map<string, array<double>>                   MAP<STRING, ARRAY<DOUBLE>>
    variant                                      refused, with what to declare in its place

Held by ``tests/pipelines/test_types.py``.
"""

from __future__ import annotations

import re

from rivermeet.pipelines.errors import OptionError

_SIMPLE = {
    "BOOLEAN", "BYTE", "TINYINT", "SHORT", "SMALLINT", "INT", "INTEGER", "LONG", "BIGINT", "FLOAT", "REAL", "DOUBLE",
    "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ",
}  # fmt: skip
_NUMBERED = {"DECIMAL", "DEC", "NUMERIC", "CHAR", "CHARACTER", "VARCHAR"}
_NOT_READ_ELSEWHERE = "readers of Delta other than Spark do not open a table that has one"
_REFUSED = {
    "VARIANT": f"{_NOT_READ_ELSEWHERE}: declare STRING and take it apart where it is used, or a STRUCT",
    "INTERVAL": f"{_NOT_READ_ELSEWHERE}: declare BIGINT, and say in its name what it counts",
    "TIME": f"{_NOT_READ_ELSEWHERE}: declare STRING",
    "VOID": "a column of nothing cannot be stored: leave it out",
    "COLLATE": "what is equal to what would depend on the collation, in Spark alone: declare STRING, and compare by "
    "lower(column)",
}
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\w+|\s+|.", re.DOTALL)


def normalize_type(text: str) -> str:
    """The type with keywords in upper case, and everything else unchanged.

    Raises
    ------
    ValueError
        If it is not a type, or one that cannot be stored for every reader.
    """
    reader = _Reader(text)
    reader.kind()
    if reader.peek():
        raise reader.error()
    return "".join(reader.tokens)


def has_map(text: str) -> bool:
    """Whether a type contains a MAP at any depth: Spark has neither order nor hash for maps."""
    reader = _Reader(text)
    reader.kind()
    return "MAP" in reader.words


class _Reader:
    """Reads a type from left to right, and converts keywords to upper case."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.words = text, _TOKEN.findall(text), set[str]()
        self._at = 0

    def peek(self) -> str:
        """The next token that is not blank; empty at the end."""
        while self._at < len(self.tokens) and self.tokens[self._at].isspace():
            self._at += 1
        return self.tokens[self._at] if self._at < len(self.tokens) else ""

    def error(self) -> ValueError:
        found = self.peek()
        what = f"{found!r} was not expected there" if found else "it ends too early"
        return ValueError(f"{self.text!r} is no Spark SQL type: {what}")

    def kind(self) -> None:
        word = self._word()
        if word in _REFUSED:
            raise OptionError(f"type {word} in {self.text!r}: {_REFUSED[word]}")
        if word == "ARRAY":
            self._expect("<")
            self.kind()
            self._expect(">")
        elif word == "MAP":
            self._expect("<")
            self.kind()
            self._expect(",")
            self.kind()
            self._expect(">")
        elif word == "STRUCT":
            self._expect("<")
            while not self._take(">"):
                self._field()
                if self.peek() != ">":
                    self._expect(",")
        elif word in _NUMBERED:
            if self._take("("):
                while self.peek().isdigit() or self.peek() == ",":
                    self._at += 1
                self._expect(")")
        elif word not in _SIMPLE:
            self._at -= 1
            raise self.error()
        if self.peek().upper() == "COLLATE":
            raise OptionError(f"type {word} COLLATE in {self.text!r}: {_REFUSED['COLLATE']}")

    def _field(self) -> None:
        name = self.peek()
        if not (name.startswith("`") or name.isidentifier() or name.replace("_", "a").isalnum()):
            raise self.error()
        self._at += 1
        self._take(":")
        self.kind()
        if self.peek().upper() == "NOT":
            self._at += 1
            self._expect("NULL")
        if self.peek().upper() == "COMMENT":
            self._at += 1
            self.peek()
            self._at += 1

    def _word(self) -> str:
        word = self.peek().upper()
        if not word.isidentifier():
            raise self.error()
        self.tokens[self._at] = word
        self.words.add(word)
        self._at += 1
        return word

    def _take(self, token: str) -> bool:
        found = self.peek().upper() == token
        self._at += found
        return found

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self.error()
