"""The chain of ten small nodes in `make bench`: each run is counted, and a wrong table leaves no time."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks import chain
from rivermeet.infra.settings import Settings

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]


def test_runs_are_measured(settings: Settings) -> None:
    done = CliRunner().invoke(chain.main, ["--runs", "2", "--records", "5"], env=settings.environ())
    assert done.exit_code == 0, done.output
    stored = json.loads((settings.home / "bench" / "chain.jsonl").read_text().splitlines()[-1])
    assert [set(run["asked"]) for run in stored["runs"]] == [{"config", "analyze", "execute"}] * 2
    assert all(seconds > 0 for seconds in stored["floor"].values())


def test_a_wrong_table(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain.Records, "join", lambda self: {("o1", 1, "x", "y")})
    done = CliRunner().invoke(chain.main, ["--runs", "2", "--records", "5"], env=settings.environ())
    assert done.exit_code == 1 and "is not that of plain Python" in done.output
