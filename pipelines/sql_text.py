"""Analyses SQL text as far as possible without a parser: the names in it, and the functions that it calls.

    "coalesce(at, `b c`) > 'now()' -- rand()"      names at, b c; calls coalesce

Texts, comments and quoted names are distinguished as Spark does. Expressions whose value depends on the run are
refused, because an epoch that is run again must give the same rows:

| expression | refused for |
|---|---|
| ``current_date``, ``now()``, ``unix_timestamp()``, ``TIMESTAMP '10:05'`` | the time of the run |
| ``rand()``, ``uuid()``, ``shuffle(tags)`` | chance |
| ``input_file_name()``, ``spark_partition_id()``, ``current_user``, ``version()`` | where it runs, and by whom |
| ``at > 'now()'``, ```now```, ``left.user``, ``user`` where a column has that name | nothing |

A value joiner that is a function of two columns is not examined. Held by ``tests/pipelines/test_sql_text.py``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | --(?:\\\n|[^\n])* )
  | (?P<comment> /\* )
  | (?P<text> [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
  | (?P<quoted> `(?:[^`]|``)*` )
  | (?P<word> \w+ )
  | (?P<sign> -> | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOCKS = {"current_date", "current_time", "current_timestamp", "curdate", "getdate", "localtimestamp", "now"}
_CHANCE = {"rand", "randn", "random", "randstr", "shuffle", "tablesample", "uniform", "uuid"}
_OF_THE_RUN = _CLOCKS | _CHANCE | {
    "current_catalog", "current_database", "current_path", "current_schema", "current_timezone", "current_user",
    "input_file_block_length", "input_file_block_start", "input_file_name", "java_method",
    "monotonically_increasing_id", "reflect", "session_user", "spark_partition_id", "try_reflect", "user", "version",
}  # fmt: skip
"""Functions whose value depends on the run that evaluates them."""
_WITHOUT_PARENTHESES = {
    "current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user", "user",
}  # fmt: skip
_TYPES = {"date", "time", "timestamp", "timestamp_ltz", "timestamp_ntz"}
_OF_THE_DAY = re.compile(r"\s*(?:(?:now|today|tomorrow|yesterday)\b|T?[0-9]{1,2}:)", re.IGNORECASE)
"""Texts that a typed literal turns into the day or the time of the run."""
_SQL_FIELDS = ("timestamp", "tombstone", "where")
"""Fields of a source or an operation that are SQL text."""


class Token(NamedTuple):
    """A part of SQL text other than blanks and comments.

    Attributes
    ----------
    kind
        ``text``, ``quoted`` (a name), ``word`` or ``sign``.
    text
        Its content: a string or a name without quotes.
    """

    kind: str
    text: str


def tokens(sql: str) -> list[Token]:
    """The parts of SQL text.

    Examples
    --------
    >>> [token.text for token in tokens("a + /* b */ `c d`")]
    ['a', '+', 'c d']
    """
    found: list[Token] = []
    at = 0
    while at < len(sql):
        part = _TOKEN.match(sql, at)
        assert part is not None and part.lastgroup is not None
        at, kind = part.end(), part.lastgroup
        if kind == "comment":
            at = _after_comment(sql, at)
        elif kind == "quoted":
            found.append(Token(kind, part[0][1:-1].replace("``", "`")))
        elif part["text"] is not None:
            found.append(Token("text", part[0].lstrip("rR")[1:-1]))
        elif kind != "blank":
            found.append(Token(kind, part[0]))
    return found


def names_in(sql: str) -> set[str]:
    """All words and quoted names of SQL text, in lower case."""
    return {token.text.lower() for token in tokens(sql) if token.kind in ("word", "quoted")}


def is_column(sql: str, name: str) -> bool:
    """Whether SQL text consists only of the column of that name.

    Examples
    --------
    >>> is_column("`At`", "at"), is_column("'at'", "at")
    (True, False)
    """
    found = tokens(sql)
    return len(found) == 1 and found[0].kind in ("word", "quoted") and found[0].text.lower() == name.lower()


def explain_unrepeatable(sql: str, columns: Collection[str] = ()) -> str | None:
    """Why the text's value depends on more than its rows, and what to write in its place; None if it does not.

    Parameters
    ----------
    columns
        Names that are columns: ``user`` is a column if there is one of that name, otherwise the user who runs Spark.
    """
    found = tokens(sql)
    ends = (Token("sign", ""),)
    own = {column.lower() for column in columns}
    own |= {name.text.lower() for word, name in pairwise(found) if word.text.lower() == "as"}
    for before, token, after, then in zip(
        (*ends, *found), found, (*found[1:], *ends), (*found[2:], *ends, *ends), strict=False
    ):
        name = token.text.lower()
        if token.kind == "word" and name in _TYPES and after.kind == "text" and _OF_THE_DAY.match(after.text):
            return f"{token.text} '{after.text}' is a time of the day that it is run on; write the date, too"
        if token.kind not in ("word", "quoted"):
            continue
        called = after == ("sign", "(")
        if called and name == "unix_timestamp" and then == ("sign", ")"):
            return _why("unix_timestamp()", "now")
        if called and name in _OF_THE_RUN:
            return _why(f"{token.text}()", name)
        alone = token.kind == "word" and before.text != "." and after.text not in (".", "->")
        if alone and name in _WITHOUT_PARENTHESES and name not in own:
            return _why(token.text, name)
    return None


def _why(shown: str, name: str) -> str:
    cures = {
        "clock": "take a time that the record has: its timestamp, or a column",
        "chance": "make it of the record's columns, such as xxhash64(key)",
        "other": "take what the record has",
    }
    kind = "clock" if name in _CLOCKS else "chance" if name in _CHANCE else "other"
    return f"{shown} is of the run and not of the record, so that an epoch run again would differ; {cures[kind]}"


def find_unrepeatable(origin: Any, columns: Collection[str]) -> str | None:
    """Why an expression of a source or an operation depends on more than its records; None if none does.

    Parameters
    ----------
    columns
        Columns that its expressions may name.
    """
    for what, sql in _expressions(origin):
        why = explain_unrepeatable(sql, columns)
        if why is not None:
            return f"{what} {sql!r}: {why}"
    return None


def _expressions(origin: Any) -> Iterator[tuple[str, str]]:
    for field in fields(origin):
        given = getattr(origin, field.name)
        if isinstance(given, Mapping):
            named = {f"{field.name} column '{column}'": each for column, each in given.items()}
        else:
            named = {field.name: given} if field.name in _SQL_FIELDS or hasattr(given, "sql") else {}
        for what, each in named.items():
            # An expression with its type, what is aggregated, or the text itself.
            sql = getattr(each, "sql", getattr(each, "of", each))
            if isinstance(sql, str):
                yield what, sql


def _after_comment(sql: str, at: int) -> int:
    """Where a comment ends that begins before ``at``; comments can be nested."""
    depth = 1
    for part in re.finditer(r"/\*|\*/", sql[at:]):
        depth += 1 if part[0] == "/*" else -1
        if depth == 0:
            return at + part.end()
    return len(sql)
