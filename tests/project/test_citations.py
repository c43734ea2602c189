"""No comment, docstring or page cites a file that is not there."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FOLDERS = (
    *("assets", "benchmarks", "docs", "expectations", "infra"),
    *("joins", "pipelines", "records", "rivermeet", "tests"),
)
FILES = [
    file.relative_to(PROJECT)
    for folder in FOLDERS
    for kind in ("*.py", "*.md")
    for file in sorted((PROJECT / folder).rglob(kind))
    if "vendor" not in file.parts
] + [Path("README.md"), Path("CHANGELOG.md")]
CITED = re.compile(r"(?<![\w/{*.-])((?:[\w-]+/)*[\w-]+\.(?:py|md))\b(?!\()")
NOT_OURS = {"pipelines/shop.py", "shop.py", "pipelines/till.py", "till.py"}
"""What README and the tutorial let their readers write."""


def prose(file: Path) -> str:
    """A page, or a module's docstrings and comments."""
    text = (PROJECT / file).read_text("utf-8")
    if file.suffix == ".md":
        return text
    comments = [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]
    parts = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, parts)]
    return "\n".join([*comments, *docstrings])


def missing(file: Path, text: str) -> list[str]:
    """Cited paths that are found neither from the project, ``tests``, ``docs`` nor the citing file's folder."""
    known, names = set(FILES), {one.name for one in FILES}
    folders = (Path(), Path("tests"), Path("docs"), file.parent)
    return [
        cited
        for cited in CITED.findall(text)
        if cited not in NOT_OURS
        and not (names >= {cited} if "/" not in cited else any(folder / cited in known for folder in folders))
    ]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_what_is_cited_is_there(file: Path) -> None:
    if file.name != "CHANGELOG.md":
        assert not missing(file, prose(file))


def test_a_page_that_is_not_there_is_found() -> None:
    assert missing(Path("joins/order.py"), "see docs/nowhere.md and operator.py") == ["docs/nowhere.md"]
