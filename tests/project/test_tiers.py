"""No test is in no tier: ``make prove`` runs part by part, and its parts hold all tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_the_parts_of_the_third_tier_hold_all_tests() -> None:
    asked = ["make", "-s", "--eval", "parts: ; @echo $(PARTS)", "parts"]
    parts = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split()
    assert not [f for f in (PROJECT / "tests").rglob("test_*.py") if not _is_in(f.relative_to(PROJECT), parts)]


def _is_in(file: Path, parts: list[str]) -> bool:
    return any(file.is_relative_to(part) for part in parts)
