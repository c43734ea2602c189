"""Every ordered window function says its frame: the default one takes all rows that are equal in the order.

    order 1, 2, 2      max(t) OVER (ORDER BY o)                     at the first 2: of both, as they are peers
                       … ROWS BETWEEN UNBOUNDED PRECEDING AND …     of the rows up to it

Functions that place a row (lag, lead, row_number) have a frame of their own, and no other is allowed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FILES = sorted(file for folder in ("joins", "records", "infra", "assets") for file in (PROJECT / folder).rglob("*.py"))
PLACING = {"lag", "lead", "row_number"}
FRAMED = ("Between(", "up_to_here(", "before_here(")
"""What gives a window its frame: of Spark, or of ``joins/order.py``."""


def unframed(source: str) -> Iterator[int]:
    """Lines with a window function that is ordered and has no frame."""
    tree = ast.parse(source)
    made: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, text = node.targets[0].id, ast.unparse(node.value)
            # A window that is framed in a second step takes its name again.
            made[name] = text + made.get(name, "")
        elif isinstance(node, ast.FunctionDef) and node.body and isinstance(node.body[-1], ast.Return):
            made[node.name] = ast.unparse(node.body[-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "over":
            called = {part.attr for part in ast.walk(node.func.value) if isinstance(part, ast.Attribute)}
            if called & PLACING:
                continue
            window = _resolved(ast.unparse(node.args[0]), made)
            if ".orderBy(" in window and not any(frame in window for frame in FRAMED):
                yield node.lineno


def _resolved(text: str, made: dict[str, str]) -> str:
    """A window's text, with what the names in it stand for."""
    head = text.split("(")[0].split(".")[0]
    return f"{text} {made[head]}" if head in made else text


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PROJECT)))
def test_every_ordered_window_has_a_frame(file: Path) -> None:
    assert not list(unframed(file.read_text("utf-8")))


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('w = Window.partitionBy("k").orderBy("o")\nx = F.max("t").over(w)', [2]),
        ('w = Window.partitionBy("k").orderBy("o").rowsBetween(-1, 0)\nx = F.max("t").over(w)', []),
        ('w = Window.partitionBy("k").orderBy("o")\nx = F.lag("t").over(w)', []),
        ('x = F.count("t").over(Window.partitionBy("k"))', []),
        ('x = F.sum("t").over(Window.orderBy("o"))', [1]),
    ],
)
def test_one_without_is_found(source: str, lines: list[int]) -> None:
    assert list(unframed(source)) == lines
