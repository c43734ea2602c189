from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from infra.engine.jars import JarsError
from infra.engine.session import new_session
from infra.feeds.broker import Broker, running
from tests.infra.sources.kafka.town import Town
from tests.world import World


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for all tests of a process; each makes topics of its own."""
    pytest.importorskip("confluent_kafka")
    try:
        with running() as started:
            yield started
    except JarsError as error:
        pytest.skip(str(error))


@pytest.fixture
def town(broker: Broker, spark: SparkSession, tmp_path: Path) -> Town:
    """Topics and tables of one test."""
    return Town(World(tmp_path, spark, new_session(spark), {}), broker)


@pytest.fixture
def beside(broker: Broker, spark: SparkSession, tmp_path: Path) -> Town:
    """Tables beside those of ``town``."""
    return Town(World(tmp_path / "beside", spark, new_session(spark), {}), broker)
