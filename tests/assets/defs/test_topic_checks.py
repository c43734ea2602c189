"""The check of a topic's freshness: which lag holds, and that it is declared with sources of topics alone."""

from __future__ import annotations

import re

import dagster as dg
import pytest

from rivermeet.assets.defs.topic_checks import NAME, reads_topic, topic_check, verdict
from rivermeet.infra.kafka.lag import PartitionLag
from rivermeet.pipelines import JSON, Files, Kafka, Pipeline

NOW = 10_000_000
FRESHNESS = 30 * 60_000
OLD = NOW - 40 * 60_000


@pytest.mark.parametrize(
    ("lag", "holds", "says"),
    [
        (PartitionLag(0, 5, 5, 5, 1000, 1000), True, "0 offsets and 0.0 s behind, 0 held back"),
        (PartitionLag(0, 3, 5, 5, OLD, OLD + 600_000), True, "2 offsets and 600.0 s behind"),
        (PartitionLag(0, 3, 5, 5, OLD, NOW), False, "2 offsets and 2,400.0 s behind"),
        (PartitionLag(0, 5, 5, 6, NOW - 1000, NOW - 1000), True, "1 held back by open transactions"),
        (PartitionLag(0, 5, 5, 6, OLD, OLD), False, "0 offsets and 2,400.0 s behind, 1 held back"),
        (PartitionLag(7, 0, 5, 5, None, NOW), False, "5 offsets behind, .* nothing was read of partitions 7"),
    ],
)
def test_what_is_fresh(lag: PartitionLag, holds: bool, says: str) -> None:
    fine = PartitionLag(1, 5, 5, 5, 1000, 1000)
    found = verdict([lag], FRESHNESS, NOW) if not holds or lag.partition == 7 else verdict([lag, fine], FRESHNESS, NOW)
    assert (found.passed, found.severity) == (holds, dg.AssetCheckSeverity.WARN)
    assert found.description is not None
    assert re.search(says, found.description), found.description


def test_it_is_of_sources_of_topics() -> None:
    shop = Pipeline("shop", freshness="10m")
    stock = shop.table("stock", Kafka("stock", key=JSON({"id": "INT"}), value=JSON({"n": "INT"})))
    files = shop.stream("files", Files("*.csv", "csv", {"id": "INT", "n": "INT"}), key=["id"], timestamp="n")
    assert (reads_topic(stock), reads_topic(files)) == (True, False)
    (spec,) = topic_check(stock).check_specs
    assert (spec.name, spec.asset_key) == (NAME, dg.AssetKey(["shop", "stock_changelog"]))
    assert spec.description == "What was read of the topic is at most 600 s behind its newest record."
