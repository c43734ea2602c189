"""The rows of a database in `make bench`, of a few: all come out, and their seconds are kept."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

pytest.importorskip("psycopg")

from benchmarks import database
from rivermeet.infra.settings import Settings

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]


@pytest.mark.usefixtures("postgres")
def test_each_row_is_measured(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "WARM_UP", 1000)
    done = CliRunner().invoke(database.main, ["--rows", "3000", "--changes", "2000"], env=settings.environ())
    assert done.exit_code == 0, done.output
    lines = (settings.home / "bench" / "database.jsonl").read_text().splitlines()
    assert list(json.loads(lines[-1])["seconds"]) == ["snapshot of 3,000 rows", "2,000 changes"]
