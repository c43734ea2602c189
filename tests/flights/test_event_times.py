"""Every row of every source of the flights pipeline: the declared SQL against pandas."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivermeet.assets.demo.feeds import feed
from rivermeet.infra.sources.files.discovery import FileState
from rivermeet.infra.sources.files.reading import read
from rivermeet.infra.sources.row_to_record import SourceFrames
from rivermeet.pipelines.flights import PIPELINE
from tests.flights import recompute

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    feed("flights", root)
    return root


def frames(spark: SparkSession, data: Path, name: str) -> SourceFrames:
    node = PIPELINE.node(name)
    assert node.source is not None
    states = [
        FileState(str(path), path.stat().st_size, path.stat().st_mtime_ns // 1_000_000)
        for path in sorted(data.glob(node.source.files.pattern))
    ]
    return read(spark, node.source, node.partitions, states)


def rows(records: SourceFrames) -> pd.DataFrame:
    return records.records.select("key.*", "value.*", F.col("timestamp").alias("_timestamp")).toPandas()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("departures", recompute.departures),
        ("arrivals", recompute.arrivals),
        ("planes", recompute.planes),
    ],
)
def test_records_are_those_of_pandas(spark: SparkSession, data: Path, name: str, expected) -> None:
    node = PIPELINE.node(name)
    found = frames(spark, data, name)
    columns = [*node.key, *node.value, "_timestamp"]
    actual = recompute.comparable(rows(found), columns)
    pd.testing.assert_frame_equal(actual, recompute.comparable(expected(), columns))
    assert found.dead.count() == 0


def test_the_last_row_of_each_flight_is_the_one_of_pandas(spark: SparkSession, data: Path) -> None:
    node = PIPELINE.node("flights")
    found = frames(spark, data, "flights")
    assert found.dead.count() == 0
    last = rows(found).sort_values("_timestamp").drop_duplicates(list(node.key), keep="last")
    columns = [*node.key, *node.value, "_timestamp"]
    actual = recompute.comparable(last, columns)
    pd.testing.assert_frame_equal(actual, recompute.comparable(recompute.flights(), columns))
