"""No test replaces a name of ours that it spells as text: a project is a value, which a test makes and passes.

``monkeypatch.setattr("rivermeet.….name", …)`` breaks with a rename that no tool sees, and hides that a seam is missing.
A fault, or a limit, is planted on the module or the object that is imported: ``setattr(crash, "reached", …)``.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PATCHES = ("setattr", "delattr", "patch")


def patched_by_name(source: str) -> list[int]:
    """Lines where a name of ours is patched by its text, or by one that is put together."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args]
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Attribute | ast.Name)
        and (call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id) in PATCHES
        and isinstance(call.args[0], ast.Constant | ast.JoinedStr)
        and "rivermeet." in ast.unparse(call.args[0])
    ]


def test_nothing_of_ours_is_patched_by_name() -> None:
    found = {
        f"{file.relative_to(TESTS)}:{line}"
        for file in TESTS.rglob("*.py")
        for line in patched_by_name(file.read_text())
    }
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        'monkeypatch.setattr("rivermeet.assets.project.find", 1)',
        'patched.delattr(f"rivermeet.assets.{name}.here")',
        'mock.patch("rivermeet.infra.crash.crash_at")',
        'patch("rivermeet.infra.crash.crash_at")',
    ],
)
def test_the_rule_can_fail(source: str) -> None:
    assert patched_by_name(source) == [1]


def test_a_fault_is_planted_on_an_object() -> None:
    assert patched_by_name('monkeypatch.setattr(crash, "reached", 1)\nmonkeypatch.setattr("sys.argv", [])') == []
