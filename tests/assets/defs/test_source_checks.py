"""The checks of sources' freshness: which lag holds, and that they are declared with the kinds that have one."""

from __future__ import annotations

import re

import dagster as dg
import pytest

from rivermeet.assets.defs.source_checks import source_checks
from rivermeet.infra.sources import standing as tables
from rivermeet.infra.sources.kafka import topic_slice as topics
from rivermeet.infra.sources.kafka.topic_slice import PartitionLag
from rivermeet.infra.sources.standing import Unread
from rivermeet.pipelines import JSON, DeltaTable, Files, Kafka, Pipeline, Postgres

NOW = 10_000_000
FRESHNESS = 30 * 60_000
OLD = NOW - 40 * 60_000


@pytest.mark.parametrize(
    ("found", "holds", "says"),
    [
        (Unread(0, "bytes", None), True, "0 bytes and 0.0 s behind."),
        (Unread(2, "versions", NOW - 10 * 60_000), True, "2 versions and 600.0 s behind."),
        (Unread(1200, "bytes", NOW - 40 * 60_000), False, "1,200 bytes and 2,400.0 s behind."),
        (Unread(1, "versions", NOW + 1000), True, "1 versions and 0.0 s behind."),
        (None, False, "Nothing was read of the table yet."),
    ],
)
def test_when_a_table_is_fresh(found: Unread | None, holds: bool, says: str) -> None:
    judged = tables.is_fresh(found, FRESHNESS, NOW)
    assert (judged.passed, judged.description) == (holds, says)


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
def test_when_a_topic_is_fresh(lag: PartitionLag, holds: bool, says: str) -> None:
    fine = PartitionLag(1, 5, 5, 5, 1000, 1000)
    found = topics.is_fresh([lag] if not holds or lag.partition == 7 else [lag, fine], FRESHNESS, NOW)
    assert found.passed == holds
    assert re.search(says, found.description), found.description


def test_they_are_of_sources_of_topics_and_of_tables() -> None:
    shop = Pipeline("shop", freshness="10m")
    shop.table("orders", Postgres("shop.public.orders", {"id": "INT", "n": "INT"}, "id"))
    shop.table("stock", DeltaTable("stock", schema={"id": "STRING", "n": "INT"}), key=["id"])
    shop.table("prices", Kafka("prices", key=JSON({"id": "INT"}), value=JSON({"n": "INT"})))
    shop.stream("files", Files("*.csv", "csv", {"id": "INT", "n": "INT"}), key=["id"], timestamp="n")
    table = "No change of the table has been there for more than 600 s and was not read."
    topic = "What was read of the topic is at most 600 s behind its newest record."
    assert [
        (spec.name, spec.asset_key, spec.description) for one in source_checks(shop) for spec in one.check_specs
    ] == [
        ("table_is_fresh", dg.AssetKey(["shop", "orders_changelog"]), table),
        ("table_is_fresh", dg.AssetKey(["shop", "stock_changelog"]), table),
        ("topic_is_fresh", dg.AssetKey(["shop", "prices_changelog"]), topic),
    ]
