"""What is shown counts in grammar: "1 row" and not "1 rows"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from rivermeet.pipelines.plural import pluralize

PROJECT = Path(__file__).parents[2]
FOLDERS = ("assets", "expectations", "infra", "joins", "pipelines", "records")
PLURAL = re.compile(
    r"^ (?:more |bad |dead |open |older )?(?:cases|checks|columns|epochs|files|invariants|keys|letters|lines|messages"
    r"|nodes|offsets|partitions|records|rows|runs|tables|values|versions|violations)\b"
)


@pytest.mark.parametrize(
    ("number", "noun", "says"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (2, "more row", "2 more rows"),
        (1200, "dead letter", "1,200 dead letters"),
    ],
)
def test_a_noun_follows_its_number(number: int, noun: str, says: str) -> None:
    assert pluralize(number, noun) == says


def plurals(source: str) -> list[int]:
    """Lines of f-strings with a plural right behind what is put in."""
    return [
        part.lineno
        for text in ast.walk(ast.parse(source))
        if isinstance(text, ast.JoinedStr)
        for part, behind in zip(text.values, text.values[1:], strict=False)
        if isinstance(part, ast.FormattedValue) and isinstance(behind, ast.Constant) and PLURAL.match(str(behind.value))
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_text_has_a_plural_behind_a_number(folder: str) -> None:
    found = [f"{file}:{line}" for file in (PROJECT / folder).rglob("*.py") for line in plurals(file.read_text("utf-8"))]
    assert not found, "count with pipelines.plural.pluralize"


def test_such_a_text_would_be_found() -> None:
    assert plurals('f"{n:,} rows of it"') == [1] and plurals("f\"{pluralize(n, 'row')} of it\"") == []


def test_no_page_has_one_either() -> None:
    behind = re.compile(r"\}\}" + PLURAL.pattern[1:])
    pages = [file for folder in FOLDERS for file in (PROJECT / folder).rglob("*.html")]
    assert pages and not [
        f"{page}: {found[0]}" for page in pages for found in [behind.search(page.read_text("utf-8"))] if found
    ]
