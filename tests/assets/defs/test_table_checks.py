"""The check of a table's freshness: which lag holds, and that it is declared with sources of tables alone."""

from __future__ import annotations

import dagster as dg
import pytest

from rivermeet.assets.defs.table_checks import NAME, reads_table, table_check, verdict
from rivermeet.assets.epoch.platform import Unread
from rivermeet.pipelines import DeltaTable, Files, Pipeline, Postgres

NOW = 10_000_000
FRESHNESS = 30 * 60_000


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
def test_what_is_fresh(found: Unread | None, holds: bool, says: str) -> None:
    judged = verdict(found, FRESHNESS, NOW)
    assert (judged.passed, judged.severity, judged.description) == (holds, dg.AssetCheckSeverity.WARN, says)


def test_it_is_of_sources_of_tables() -> None:
    shop = Pipeline("shop", freshness="10m")
    orders = shop.table("orders", Postgres("shop.public.orders", {"id": "INT", "n": "INT"}, "id"))
    stock = shop.table("stock", DeltaTable("stock", schema={"id": "STRING", "n": "INT"}), key=["id"])
    files = shop.stream("files", Files("*.csv", "csv", {"id": "INT", "n": "INT"}), key=["id"], timestamp="n")
    assert [reads_table(node) for node in (orders, stock, files)] == [True, True, False]
    (spec,) = table_check(stock).check_specs
    assert (spec.name, spec.asset_key) == (NAME, dg.AssetKey(["shop", "stock_changelog"]))
    assert spec.description == "No change of the table has been there for more than 600 s and was not read."
