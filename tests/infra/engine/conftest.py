"""An engine of a test module's own, with a home, JVMs and a memory (``ENGINE_MEMORY``) of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rivermeet.infra.engine import warm as engine
from rivermeet.infra.engine.files import EngineState
from rivermeet.infra.settings import Settings


@pytest.fixture(scope="module")
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    home = {"RIVERMEET_HOME": str(tmp_path_factory.mktemp("own"))}
    jars = {"RIVERMEET_JARS": os.environ.get("RIVERMEET_JARS", "")}
    settings = Settings.from_env(home | jars | {"RIVERMEET_ENGINE_MEMORY": request.module.ENGINE_MEMORY})
    yield settings
    engine.stop(settings)


@pytest.fixture
def warm(own: Settings) -> EngineState:
    return engine.start(own)
