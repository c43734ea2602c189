"""Spark's own commits (appends, MERGE, OPTIMIZE, properties) against delta-rs': none that was acknowledged is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rivermeet.infra.settings import PROJECT
from tests.reliability import survived

COMMITS = 60


@pytest.mark.prove
def test_no_commit_is_lost(s3: str, tmp_path: Path) -> None:
    env = os.environ | {
        "RIVERMEET_HOME": str(tmp_path),
        "RIVERMEET_TABLES": s3,
        "RIVERMEET_ENGINE": "local[2]",
        "RIVERMEET_ENGINE_MEMORY": "1g",
    }
    command = [sys.executable, "-m", "tests.infra.delta.raced", f"{s3}/t", str(COMMITS)]
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    assert (found["lost"], found["doubled"], found["not acknowledged"]) == ([], [], [])
    counts = found["done"]
    assert all(counts.get(f"spark {kind}", 0) for kind in ("append", "merge")), counts
    assert found["versions"] >= 100, "Spark's and delta-rs' were to be raced, a hundred of them"
    survived("commits of Spark and of delta-rs at once, on S3", "acknowledged and lost: 0", found["versions"])
