"""docs/reliability.md has every fault that a test says it survived."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import reliability
from tests.reliability import SETTING, listed, survived, table

TESTS = Path(__file__).parent


def faults() -> Iterator[tuple[str, str]]:
    """(where, pattern) of each fault that is named in a call of `survived`."""
    for file in sorted({*TESTS.rglob("*.py")} - {Path(__file__)}):
        tree = ast.parse(file.read_text("utf-8"))
        texts = {
            target.id: statement.value
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "survived":
                first = node.args[0]
                named = texts.get(first.id, first) if isinstance(first, ast.Name) else first
                yield f"{file.relative_to(TESTS)}:{node.lineno}", _pattern(named)


def _pattern(fault: ast.expr) -> str:
    if isinstance(fault, ast.Constant):
        return re.escape(str(fault.value))
    parts = fault.values if isinstance(fault, ast.JoinedStr) else []
    return "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".+" for p in parts) or ".+"


@pytest.mark.parametrize(("where", "fault"), list(faults()))
def test_a_fault_is_in_the_page(where: str, fault: str) -> None:
    assert any(re.fullmatch(fault, name) for name in listed(reliability.PAGE.read_text("utf-8"))), (
        f"{where}: the page has no such fault; run that test with {SETTING}=LINES.jsonl and make the table anew"
    )


def test_lines_are_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "lines.jsonl"
    monkeypatch.setenv(SETTING, str(lines))
    survived("a|b", "rows lost", 0)
    survived("a|b", "kills", 1200)
    survived("a|b", "kills")
    monkeypatch.delenv(SETTING)
    survived("unheard", "of")
    assert [json.loads(line)["count"] for line in lines.read_text().splitlines()] == [0, 1200, 1]
    made = table(lines.read_text().splitlines())
    assert made.splitlines()[2:] == ["| a\\|b | kills | 1,201 |", "| a\\|b | rows lost | 0 |"]
