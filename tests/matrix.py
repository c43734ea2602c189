"""The matrix of features, generated from the tests that prove them: ``python -m tests.matrix``.

A test marked ``cell`` proves the cell that its marker and parameters name: ``join`` (the family), ``how`` and
``semantics``. A cell that is offered and that no test proves is an error, so that the matrix cannot promise more than
the tests hold.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from rivermeet.joins.operator import OPERATORS
from rivermeet.pipelines.declare.join_rules import PROFILES
from rivermeet.pipelines.joins import Join, Semantics

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "reference" / "joins.md"
BLOCK = re.compile(r"(<!-- matrix: python -m tests\.matrix -->\n).*?(<!-- end of matrix -->)", re.DOTALL)
COLUMNS = get_args(Semantics)
NAMES = {
    "stream-stream": "stream ⋈ stream",
    "stream-table": "stream ⋈ table",
    "stream-globaltable": "stream ⋈ global table",
    "table-table": "table ⋈ table",
    "fk-table-table": "table ⋈ table on a foreign key",
    "one-to-many": "one-to-many",
    "global-global": "global ⋈ global, a view",
    "windowed-tables": "windowed table ⋈ windowed table",
}
TYPES = {
    "stream-stream": ("inner", "left", "outer"),
    "table-table": ("inner", "left", "outer"),
    "windowed-tables": ("inner", "left", "outer"),
    "one-to-many": ("inner",),
}
"""Types of a family; others have inner and left."""
Cell = tuple[str, str, str]


def offered() -> list[Cell]:
    """Family, type and profile of every cell that a declaration accepts."""
    joins = {family.family: profiles for family, profiles in PROFILES.items()}
    joins["windowed-tables"] = ("3.1",)
    cells = [
        (family, how, profile)
        for family, profiles in joins.items()
        for how in TYPES.get(family, ("inner", "left"))
        for profile in profiles
        if (family, how, profile) != ("stream-table", "inner", "0.10.0")
    ]
    made = [(operation.family, "", "3.1") for operation in OPERATORS if not issubclass(operation, Join)]
    return cells + made


class _Collector:
    """Takes the proofs out of a collection of tests."""

    def __init__(self) -> None:
        self.found: dict[Cell, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("cell"):
                for cell in _cells(mark, item):
                    self.found.setdefault(cell, item.nodeid.replace("|", "/"))


def _cells(mark: pytest.Mark, item: pytest.Item) -> list[Cell]:
    params: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    named: dict[str, Any] = {"how": "", "semantics": "3.1", **params, **mark.kwargs}
    every: list[list[str]] = [
        [value] if isinstance(value, str) else list(value)
        for value in (named["join"], named["how"], named["semantics"])
    ]
    return [(join, how, profile) for join in every[0] for how in every[1] for profile in every[2]]


def proofs() -> Mapping[Cell, str]:
    """Cell to the first test that proves it; LookupError where one is offered without."""
    collector = _Collector()
    pytest.main(["--collect-only", "-qq", "-m", "", "--no-header", str(PROJECT / "tests")], plugins=[collector])
    missing = [cell for cell in offered() if cell not in collector.found]
    if missing:
        raise LookupError(f"offered, and no test marked `cell` has it: {missing}")
    return collector.found


def matrix() -> str:
    """The tables in Markdown."""
    found, cells = proofs(), offered()
    lines = ["| join | type | " + " | ".join(f"`{profile}`" for profile in COLUMNS) + " |", "|---" * 6 + "|"]
    for family, name in NAMES.items():
        for how in TYPES.get(family, ("inner", "left")):
            row = [_link(found, (family, how, profile), cells) for profile in COLUMNS]
            lines.append(f"| {name} | {how} | " + " | ".join(row) + " |")
    lines += ["", "| operation | |", "|---|---|"]
    lines += [f"| {cell[0].replace('-', ' ')} | {_link(found, cell, cells)} |" for cell in cells if not cell[1]]
    return "\n".join(lines) + "\n"


def _link(found: Mapping[Cell, str], cell: Cell, cells: list[Cell]) -> str:
    if cell not in cells:
        return "-"
    file, _, test = found[cell].partition("::")
    return f'[proven](../../{file} "{test}")'


def main() -> None:
    """Write the matrix into its page."""
    text = PAGE.read_text("utf-8")
    table = matrix()
    new = BLOCK.sub(lambda block: block[1] + table + block[2], text)
    if "--check" in sys.argv:
        sys.exit(new != text and "The matrix is not what the tests prove: run `python -m tests.matrix`")
    PAGE.write_text(new, "utf-8")


if __name__ == "__main__":
    main()
