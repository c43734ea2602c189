"""Rows of COPY as columns of text, from what a server gives."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from rivermeet.infra.sources.postgres.landing import read_copy
from tests.servers.postgres import PostgresServer

ROWS = [
    ("1", None),
    ("2", ""),
    ("3", 'a "quoted", one'),
    ("4", "two\nlines"),
    ("5", "\r\n"),
    ("6", "\\."),
    ("7", "\\N"),
    ("8", "NULL"),
    ("9", " blank "),
    ("10", "ä€😀"),
    (None, None),
]


def copied(server: PostgresServer, rows: list[tuple[Any, ...]], **limits: int) -> list[list[tuple[Any, ...]]]:
    """The rows of each chunk."""
    width = len(rows[0])
    values = ", ".join(f"({', '.join(['%s::text'] * width)})" for _ in rows)
    query: Any = f"COPY (VALUES {values}) TO STDOUT (FORMAT csv)"
    cells = [cell for row in rows for cell in row]
    with psycopg.connect(f"{server.dsn} dbname=postgres") as client, client.cursor().copy(query, cells) as lines:
        found = list(read_copy(lines, width, **{"most": 100, "most_bytes": 1000, **limits}))
    return [list(zip(*table.to_pydict().values(), strict=True)) for table in found]


def test_each_text_is_as_it_is_in_the_table(postgres: PostgresServer) -> None:
    assert copied(postgres, ROWS) == [ROWS]


def test_one_column(postgres: PostgresServer) -> None:
    rows = [("a",), (None,), ("",), (None,)]
    assert copied(postgres, rows) == [rows]


@pytest.mark.parametrize("limits", [{"most": 3}, {"most_bytes": 1}])
def test_in_chunks(postgres: PostgresServer, limits: dict[str, int]) -> None:
    found = copied(postgres, ROWS, **limits)
    assert len(found) == (4 if "most" in limits else len(ROWS))
    assert [row for chunk in found for row in chunk] == ROWS


def test_a_row_that_is_larger_than_a_chunk(postgres: PostgresServer) -> None:
    rows = [("1", "x" * 3_000_000), ("2", "y")]
    assert [len(chunk) for chunk in copied(postgres, rows)] == [1, 1]


def test_no_row() -> None:
    assert list(read_copy([], 2, 100, 1000)) == []
