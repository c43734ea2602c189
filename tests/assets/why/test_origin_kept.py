"""The changelog of a source has where each record came from; one of before gets it with its next epoch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.epoch.operator_step import step_of
from rivermeet.assets.epoch.run import run_epoch
from rivermeet.assets.why.changelogs import Changelog
from rivermeet.infra.settings import Settings
from tests.assets.why.small import PLANE, PLANES, Small

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


@pytest.fixture
def home(tmp_path: Path, settings: Settings) -> Small:
    """With a changelog of before places were kept."""
    found = Small(tmp_path, settings)
    rows = [({"tail": "N1"}, {"built": 1987}, 5, 0, 0, 1)]
    before = PLANE.remove(PLANE.get_field_index("origin"))
    found.write(found.planes, 1, before, rows, [found.file("planes/1.csv", PLANES)])
    return found


def rows(home: Small, tail: str) -> list[Any]:
    return Changelog(home.project, home.planes).of_key({"tail": tail})


def test_a_changelog_without_places_gets_them(home: Small) -> None:
    assert "origin" not in rows(home, "N1")[0]
    path = home.file("planes/3.csv", 'tail,built,ts\nN7,2001,40\n"N\n8",2002,41\nN1,2003,42\n')
    run_epoch(replace(home.project.context(home.pipeline), quality=None), step_of(home.project, home.planes))
    old, new = rows(home, "N1")
    assert (old["origin"], new["origin"]) == (None, {"file": path, "line": 5})
    changelog = Changelog(home.project, home.planes)
    assert [changelog.origin_of(row).line for row in (old, new)] == [None, 5]
    # A quoted line break is within its line, and counts.
    (broken,) = rows(home, "N\n8")
    assert broken["origin"]["line"] == 3
