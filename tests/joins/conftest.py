"""Fixtures of the operator tests: a fresh world of Delta tables for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.engine.session import new_session
from tests.world import World


@pytest.fixture(scope="session")
def fold_session(spark: SparkSession) -> SparkSession:
    return new_session(spark)


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, fold_session: SparkSession) -> Callable[..., World]:
    """Make a world, given each input's key and value types."""

    def make(name: str = "world", **types: str) -> World:
        return World(tmp_path / name, spark, fold_session, types)

    return make
