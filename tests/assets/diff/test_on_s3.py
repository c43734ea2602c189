"""`rivermeet diff` of tables at a URL: what it computes lies below ``_diff`` beside them, and goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import obstore
import pytest
from obstore.store import from_url

from rivermeet.assets.diff.compute import SCRATCH
from rivermeet.assets.scaffold.write import write_project
from tests.packages import SEARCHED

CLI = "from rivermeet.assets.cli.main import main; main()"


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_a_narrower_window(s3: str, tmp_path: Path) -> None:
    write_project(tmp_path / "shop")
    env = {
        **os.environ,
        "PYTHONPATH": SEARCHED,
        "RIVERMEET_HOME": str(tmp_path / "home"),
        "RIVERMEET_TABLES": s3,
        "RIVERMEET_ENGINE_MEMORY": "1g",
    }

    def types(*command: str, status: int = 0) -> str:
        asked: Sequence[str] = [sys.executable, "-c", CLI, *command]
        done = subprocess.run(asked, cwd=tmp_path / "shop", env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def objects() -> set[str]:
        return {found["path"] for found in obstore.list(from_url(s3)).collect()}

    try:
        types("run", "shop")
        before = objects()
        (line,) = types("diff", "shop", "--window", "0s,40m", "--json", status=1).splitlines()
        found = json.loads(line)
        # A pair has the later timestamp of its two records: it goes, and the order comes alone, at its own.
        assert [found[kind] for kind in ("come", "go", "change", "stay")] == [1, 1, 0, 2]
        come, go = sorted(found["examples"], key=lambda example: example["kind"])
        assert (json.loads(come["would_be"])["paid"], json.loads(go["stands"])["paid"]) == (None, 10.0)
        assert objects() == before and not any(SCRATCH in name for name in before)
    finally:
        types("engine", "stop")
