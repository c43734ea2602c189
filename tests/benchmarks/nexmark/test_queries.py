"""NEXMark's queries answer what DuckDB does from all records at once, however these are cut into epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from benchmarks.nexmark.answers import SQL
from benchmarks.nexmark.events import Pace, events
from benchmarks.nexmark.queries import QUERIES
from benchmarks.peers import duckdb_recompute
from rivermeet.assets.bench.run import measure
from rivermeet.infra.delta.io import read
from rivermeet.infra.settings import Settings

SLOW = Pace(delay_us=20_000, group=30)
"""A person a second, so that a few hundred of them fill many windows; shuffled as well as held back."""


def asked(query: str, records: pa.Table) -> tuple[list[str], list[Any]]:
    """Column names and rows of DuckDB's answer."""
    database = duckdb.connect()
    database.register("records", records)
    done = database.execute(query)
    return [column[0] for column in done.description or ()], done.fetchall()


def test_bids_come_before_their_auctions_too() -> None:
    """Or the rule of arrival would be no rule; and some pairs must lie near each other but in two windows."""
    early = """SELECT count(*) FROM records b JOIN records a ON a.id = b.auction
        WHERE a.side = 0 AND b.side = 1 AND b.seq < a.seq"""
    assert asked(early, events(["auctions", "bids"], 20_000))[1][0][0] > 500
    near = """SELECT count(*) FILTER (a.ts // 10000 = p.ts // 10000), count(*) FROM records a JOIN records p
        ON a.seller = p.id WHERE a.side = 1 AND p.side = 0 AND abs(a.ts - p.ts) < 10000"""
    ((together, both),) = asked(near, events(["persons", "auctions"], 1_500, pace=SLOW))[1]
    assert 50 < together < both - 20


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("epochs", [3, 1])
@pytest.mark.parametrize("query", QUERIES)
def test_the_rows_are_duckdbs(settings: Settings, spark: SparkSession, tmp_path: Path, query: str, epochs: int) -> None:
    workload = QUERIES[query]()
    records = events([*workload.sides], 1_500, pace=SLOW)
    pq.write_table(records, tmp_path / "epoch_000.parquet")
    line = measure(workload, tmp_path, settings, epochs)
    assert (len(line["epochs"]), line["rows_in"]) == (epochs, 1_500)
    assert (line["final_rows"], line["checksum"]) == duckdb_recompute.answer(query, tmp_path)
    columns, must = asked(SQL[query], records)
    name = workload.pipeline.name
    folder = settings.home / "bench" / name / "tables" / name / workload.result.name
    if workload.result.is_table:
        rows = read(spark, str(folder / "table"))
    else:
        rows = read(spark, str(folder / "changelog")).select("key.*", "value.*")
    found = sorted(tuple(row) for row in rows.select(*columns).collect())
    assert len(found) > 50 and found == sorted(must)
