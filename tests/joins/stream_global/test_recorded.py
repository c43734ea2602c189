"""Look-ups in a global table, row for row: Kafka Streams' recorded answers, and the reference."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.joins.recorded import check_recorded, check_reference, kinds_of, types_of

pytestmark = pytest.mark.timeout(900)


@pytest.mark.cell
@pytest.mark.slow
@pytest.mark.parametrize(("join", "how", "semantics"), kinds_of("stream-globaltable"))
def test_kafka_streams_answered_the_same(spark: SparkSession, join: str, how: str, semantics: str) -> None:
    check_recorded(spark, join, how, semantics)


@pytest.mark.cell
@pytest.mark.prove
@pytest.mark.parametrize(("join", "how"), types_of("stream-globaltable"))
def test_profile_3_1_is_the_reference(spark: SparkSession, join: str, how: str) -> None:
    check_reference(spark, join, how)
