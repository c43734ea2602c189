"""No word that the glossary retires is in code, pages or messages.

The table "Retired words" of ``docs/glossary.md`` names them. A word of several meanings is retired in one of them: no
pattern finds that, and it has none here.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PATTERNS = {
    "foreign hands, foreign change, foreign write": r"foreign (hands?|changes?|writes?|modif\w+)",
    "poison record": r"poison\w*",
    "told, telling": r"told|telling|tells?",
    "settle (of an audit)": r"settl(es|ing)",
    "let go": r"lets? go|lets (it|them|records|rows) go|letting go",
    "hand on": r"hand(s|ed|ing)? on",
    "mend": r"mend(s|ed|ing)?",
    "whoever": r"whoever",
    "lets": r"lets",
    "of which (for whose)": r"(?<!one )(?<!each )(?<!some )(?<!all )(?<!none )(?<!both )of which",
    "anew": r"\w+ anew(?!:)",
    "for (because)": r"\w+, for (it|they|there|nothing|nobody|no|what|neither|we)",
    "pass over": r"(?<!a )(?<!more )pass over|pass(es|ed|ing) over",
    "all the same (nevertheless)": r"all the same(?! \w)",
    "comes to nothing": r"(comes?|came) to nothing",
    "one's very": r"th(e|is|at) very (bytes|same|home|rows|key)",
}
WITHOUT_PATTERN = {"reached (of rows)", "sent (of frames)", "memory (of an operator)"}
KEPT = ("docs/glossary.md", "tests/project/test_glossary.py")
TEXT = (".py", ".md", ".toml", ".yaml", ".yml", ".css", ".js", ".html", ".java", "Makefile")


def retired() -> list[str]:
    page = (PROJECT / "docs/glossary.md").read_text("utf-8")
    rows = page.split("## Retired words")[1].splitlines()
    return [row.split("|")[1].strip() for row in rows if row.startswith("| ") and not row.startswith("| not |")]


def texts() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    files = (name for name in listed.splitlines() if name.endswith(TEXT) and name not in KEPT)
    return [PROJECT / name for name in files if "/vendor/" not in name and (PROJECT / name).is_file()]


def test_every_retired_word_is_searched_for_or_cannot_be() -> None:
    assert set(retired()) == PATTERNS.keys() | WITHOUT_PATTERN


@pytest.mark.parametrize("word", PATTERNS)
def test_no_retired_word_is_left(word: str) -> None:
    pattern = re.compile(rf"\b({PATTERNS[word]})\b", re.IGNORECASE)
    found = [
        f"{file.relative_to(PROJECT)}:{number}: {line.strip()}"
        for file in texts()
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("foreign hands, foreign change, foreign write", "a table in foreign hands"),
        ("poison record", "poisonous"),
        ("told, telling", "A commit tells the net change."),
        ("settle (of an audit)", "until someone settles it"),
        ("let go", "it lets them go"),
        ("hand on", "handed on"),
        ("mend", "until it is mended"),
        ("whoever", "Whoever takes the lock"),
        ("lets", "it lets them pass"),
        ("of which (for whose)", "a table, of which the rows are old"),
        ("anew", "the table is read anew"),
        ("for (because)", "it is refused, for nobody knows its unit"),
        ("pass over", "records that were passed over"),
        ("all the same (nevertheless)", "an empty epoch is made all the same."),
        ("comes to nothing", "an epoch that came to nothing"),
        ("one's very", "a file of the very bytes of another"),
    ],
)
def test_a_retired_word_would_be_found(word: str, text: str) -> None:
    assert re.search(rf"\b({PATTERNS[word]})\b", text, re.IGNORECASE)
