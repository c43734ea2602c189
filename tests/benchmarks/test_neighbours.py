"""A small run beside a backlog: both are measured, and the backlog's answer is the same."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks import neighbours
from rivermeet.infra.settings import Settings

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1200)]


def test_both_are_measured(settings: Settings) -> None:
    done = CliRunner().invoke(neighbours.main, ["--left", "1000000", "--runs", "1"], env=settings.environ())
    assert done.exit_code == 0, done.output
    stored = json.loads((settings.home / "bench" / "neighbours.jsonl").read_text().splitlines()[-1])
    assert len(stored["small"]["beside"]) >= 1
    assert set(stored["backlog"]) == {"alone", "beside"}
