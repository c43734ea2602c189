from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings as hypothesis

from infra import engine
from infra.session import release, session
from infra.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What passes once passes again: a change is not judged by another draw. New draws: HYPOTHESIS_PROFILE=default.
hypothesis.register_profile("same", derandomize=True)
hypothesis.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A home of the tests' own: the user's tables and engine are not touched.

    ``RIVERMEET_TEST_HOME`` names one that is kept, with its engine warm, from run to run.
    """
    kept = os.environ.get("RIVERMEET_TEST_HOME")
    home = kept or tmp_path_factory.mktemp("home")
    unset = {"RIVERMEET_TABLES", "RIVERMEET_DATA", "RIVERMEET_ENGINE_PORT"}
    env = {k: v for k, v in os.environ.items() if k not in unset}
    settings = Settings.from_env(env | {"RIVERMEET_HOME": str(home)})
    yield settings
    release()
    if not kept:
        engine.stop(settings)


@pytest.fixture(scope="session")
def spark(settings: Settings) -> SparkSession:
    return session(settings)
