"""The chain of ten small nodes in `make bench`: each run is counted, and a wrong table leaves no time."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from benchmarks import chain
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.settings import Settings
from tests.conftest import settings_of

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A home with its own engine: the first run stops it, and that of the tests may be about to be used by another."""
    made = settings_of(tmp_path_factory.mktemp("chain"))
    yield made
    engine.stop(made)


def test_runs_are_measured(own: Settings) -> None:
    done = CliRunner().invoke(chain.main, ["--runs", "2", "--records", "5"], env=own.environ())
    assert done.exit_code == 0, done.output
    stored = json.loads((own.home / "bench" / "chain.jsonl").read_text().splitlines()[-1])
    assert [set(run["asked"]) for run in stored["runs"]] == [{"config", "analyze", "execute"}] * 2
    assert all(seconds > 0 for seconds in stored["floor"].values())


def test_a_wrong_table(own: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain.Records, "join", lambda self: {("o1", 1, "x", "y")})
    done = CliRunner().invoke(chain.main, ["--runs", "2", "--records", "5"], env=own.environ())
    assert done.exit_code == 1 and "is not that of plain Python" in done.output
