"""Fields of CSV lines: those that are wanted, why a line has none, and what is left to the engine."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rivermeet.infra.sources.files.csv import NOT_UTF8_LINE, fields_of, not_so_wide

WIDTH = not_so_wide(3)
HARD = "hard"
LINES = {
    "a,1,10": ("a", "10"),
    ",1,": (None, None),
    "NA,1,NAN": (None, "NAN"),
    '"a, ""b""",1,10': ('a, "b"', "10"),
    '"","NA","NA"': (None, None),
    'a"b,1,5" x': ('a"b', '5" x'),
    ' "a",1,10': (' "a"', "10"),
    '"a\r\nb",1,10': ("a\r\nb", "10"),
    "a,1": WIDTH,
    "a,1,2,3": WIDTH,
    '"a,1,2"': WIDTH,
    '"a"b,1,2': HARD,
    '"a" ,1,2': HARD,
    '"a,1,2': HARD,
    "a\0,1,2": HARD,
    "\ufffd,1": NOT_UTF8_LINE,
    '"\ufffd"x,1,2': NOT_UTF8_LINE,
}


def read(lines: list[str]) -> list[object]:
    found = fields_of(pa.array(lines, pa.string()), ",", 3, [0, 2], "NA")
    columns = [column.to_pylist() for column in found.wanted]
    return [
        HARD if hard else why or values
        for *values, why, hard in zip(*columns, found.malformed.to_pylist(), found.hard.to_pylist(), strict=True)
        for values in [tuple(values)]
    ]


def test_lines_together_and_each_alone() -> None:
    assert dict(zip(LINES, read(list(LINES)), strict=True)) == LINES
    assert {line: read([line])[0] for line in LINES} == LINES
    assert read([]) == []


@pytest.mark.parametrize("delimiter", ["\t", "|", ".", "\\", "é"])
def test_any_character_delimits(delimiter: str) -> None:
    lines = [line.replace(",", delimiter) for line in ("a,1,10", '"a,",1,10', "a,1")]
    found = fields_of(pa.array(lines), delimiter, 3, [0], None)
    assert found.wanted[0].to_pylist() == ["a", f"a{delimiter}", None]
    assert found.malformed.to_pylist() == [None, None, WIDTH]
