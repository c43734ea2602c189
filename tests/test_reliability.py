"""docs/reliability.md has every fault that a test says it survived, and all that a test says is handled."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import reliability
from tests.reliability import SETTING, handled, handled_table, listed, listed_as_handled, survived, table

TESTS = Path(__file__).parent


def calls(function: str, argument: int) -> Iterator[tuple[str, str]]:
    """(where, pattern) of what each call of `function` names as that argument."""
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
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
                given = node.args[argument]
                named = texts.get(given.id, given) if isinstance(given, ast.Name) else given
                yield f"{file.relative_to(TESTS)}:{node.lineno}", _pattern(named)


def _pattern(fault: ast.expr) -> str:
    if isinstance(fault, ast.Constant):
        return re.escape(str(fault.value))
    parts = fault.values if isinstance(fault, ast.JoinedStr) else []
    return "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".+" for p in parts) or ".+"


@pytest.mark.parametrize(("where", "fault"), list(calls("survived", 0)))
def test_a_fault_is_in_the_page(where: str, fault: str) -> None:
    assert any(re.fullmatch(fault, name) for name in listed(reliability.PAGE.read_text("utf-8"))), (
        f"{where}: the page has no such fault; run that test with {SETTING}=LINES.jsonl and recreate the table"
    )


@pytest.mark.parametrize(("where", "what"), list(calls("handled", 1)))
def test_what_is_handled_is_in_the_page(where: str, what: str) -> None:
    assert any(re.fullmatch(what, name) for name in listed_as_handled(reliability.PAGE.read_text("utf-8"))), (
        f"{where}: the page has no such row; run that test with {SETTING}=LINES.jsonl and recreate the table"
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


def test_what_is_handled_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "lines.jsonl"
    monkeypatch.setenv(SETTING, str(lines))
    for _ in range(2):
        handled("files", "a|b", "a dead letter")
    survived("a kill", "rows lost", 0)
    made = lines.read_text().splitlines()
    assert handled_table(made).splitlines()[2:] == ["| files | a\\|b | a dead letter |"]
    assert table(made).splitlines()[2:] == ["| a kill | rows lost | 0 |"]
    assert not table([]) and not handled_table([])


def test_a_part_of_a_run_leaves_the_table_of_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, lines = tmp_path / "page.md", tmp_path / "lines.jsonl"
    blocks = [block.search(reliability.PAGE.read_text("utf-8")) for block in (reliability.BLOCK, reliability.HANDLED)]
    before = "".join(found[0] for found in blocks if found)
    page.write_text(before)
    monkeypatch.setattr(reliability, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["reliability", str(lines)])
    monkeypatch.setenv(SETTING, str(lines))
    survived("a kill", "rows lost", 0)
    handled("files", "a thing", "a dead letter")
    reliability.main()
    assert listed(page.read_text()) == listed(before)
    assert listed_as_handled(page.read_text()) == {"input or trouble", "a thing"}
