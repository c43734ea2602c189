"""The demo over a database: its rows are those of the database's own join, while transactions go on."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg")

from rivermeet.assets.project import Project
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.settings import Settings
from tests.demos.cdc import demonstrated

pytestmark = pytest.mark.slow


@pytest.mark.prove
@pytest.mark.usefixtures("postgres")
def test_the_join_is_the_databases_own(settings: Settings) -> None:
    said: list[str] = []
    project = Project(settings, Sessions(settings), say=said.append)
    assert demonstrated(project, comparisons=2, seconds=1.0), said
    compared = [line for line in said if " equal: " in line]
    assert len(compared) == 2, said
    assert not list(settings.home.glob("demo-cdc-*")), "nothing is left of it"
