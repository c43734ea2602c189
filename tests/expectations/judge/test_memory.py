"""The memory of judging is held at ten million records: the rest is spilled into the home, and nothing stays there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rivermeet.infra.settings import PROJECT
from tests.expectations.judge import large
from tests.reliability import survived

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]

LIMIT = 512 * 2**20
BESIDE = 128 * 2**20
"""What DuckDB does not count: pages of Parquet as they are decoded, and memory that was freed and kept for later."""
LOADED = 96 * 2**20
"""Python, Arrow with pandas, Delta's and DuckDB's libraries: there before anything is judged. Without pages of mapped
files: of the same files, 85 MB in one place and 122 in another."""


def test_the_limit_is_held(tmp_path: Path) -> None:
    large.made(tmp_path)
    env = os.environ | {"RIVERMEET_HOME": str(tmp_path), "RIVERMEET_JUDGE_MEMORY": "512m", "RIVERMEET_JUDGE": "duckdb"}
    env.pop("RIVERMEET_TABLES", None)
    command = [sys.executable, "-m", "tests.expectations.judge.large"]
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    states = found["states"]
    assert states.pop("fold_equals_table") == "violated", found
    assert len(states) >= 6 and set(states.values()) == {"passed"}, states
    assert [json.loads(row["key"]) for row in found["sample"]["fold_equals_table"]] == [{"id": large.WRONG}]
    assert found["loaded"] < LOADED, found
    assert found["added"] < LIMIT + BESIDE, found
    assert found["spilled"] > LIMIT / 4, "it does not fit"
    assert not [file for file in (tmp_path / "spill").rglob("*") if file.is_file()]
    survived("ten million records to be judged in 512 MB", "judged, the rest spilled into the home")
