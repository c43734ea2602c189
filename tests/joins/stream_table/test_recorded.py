"""Look-ups of a stream's records in a table, row for row: Kafka Streams' recorded answers, and the reference."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.replay.run import Way
from tests.joins.recorded import WAYS, check_deletes, check_recorded, check_reference, kinds_of, types_of

pytestmark = pytest.mark.timeout(900)


@pytest.mark.cell
@pytest.mark.slow
@pytest.mark.parametrize(("join", "how", "semantics"), kinds_of("stream-table"))
def test_kafka_streams_answered_the_same(spark: SparkSession, join: str, how: str, semantics: str) -> None:
    check_recorded(spark, join, how, semantics)


@pytest.mark.cell
@pytest.mark.prove
@pytest.mark.parametrize(("join", "how"), types_of("stream-table"))
def test_profile_3_1_is_the_reference(spark: SparkSession, join: str, how: str) -> None:
    check_reference(spark, join, how)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_deletes_that_leave_no_trace(spark: SparkSession, way: Way) -> None:
    check_deletes(spark, "stream-table", way)
