"""A source of each kind, which gets a hundred rows at a time: its requests and its methods are counted."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.epochs.stages import write
from rivermeet.infra.epochs.step import EpochResult
from rivermeet.infra.sources.files import ingest as files_ingest
from rivermeet.infra.sources.kafka import ingest as topic_ingest
from rivermeet.infra.sources.postgres import ingest as postgres_ingest
from rivermeet.infra.sources.source_step import SourceStep
from rivermeet.pipelines import JSON, DeltaTable, Kafka, Node, Pipeline, Text
from tests.infra.sources.delta.shed import Shed
from tests.infra.sources.feeding import NUMBERS, fed
from tests.infra.sources.kafka.town import Town
from tests.infra.sources.place import Place
from tests.infra.sources.postgres.base import Base

ROWS = 100
FIT = (files_ingest, topic_ingest, postgres_ingest, write)
"""Where how Spark compiles is fitted to rows."""


class Source(NamedTuple):
    """A source of one test, and how it gets rows of these numbers."""

    spark: SparkSession
    deliver: Callable[[range], object]
    step: Callable[[], SourceStep[Any]]
    run: Callable[[], EpochResult | None]


def of_files(request: pytest.FixtureRequest, suffix: str, wide: Mapping[str, str] | None = None) -> Source:
    """Files of that suffix; ``wide`` are columns beside the three that have values."""
    is_json = suffix.startswith("json")
    schema = {**NUMBERS, **(wide or {})}
    source = fed(
        request.getfixturevalue("spark"),
        request.getfixturevalue("tmp_path"),
        schema,
        value=[name for name in schema if name not in ("id", "at")],
        format="json" if is_json else "csv",
    )

    def deliver(numbers: range) -> None:
        line = '{"id": "k%d", "n": %d, "at": %d}' if is_json else "k%d,%d,%d" + "," * (len(schema) - 3)
        lines = [line % (n, n, n) for n in numbers]
        text = "\n".join(lines if is_json else [",".join(schema), *lines]).encode()
        if suffix.endswith("gz"):
            text = gzip.compress(text)
        if suffix == "zip":
            with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
                archive.writestr("rows.csv", text)
            text = packed.getvalue()
        source.folder.mkdir(parents=True, exist_ok=True)
        (source.folder / f"{numbers.start:03}.{suffix}").write_bytes(text)

    return Source(source.world.spark, deliver, lambda: source.step, source.run)


def of(place: Place, node: Node, deliver: Callable[[range], object]) -> Source:
    """A node that reads a place."""
    return Source(place.world.spark, deliver, lambda: place.step(node), lambda: place.run(node))


def of_topic(request: pytest.FixtureRequest) -> Source:
    """A topic of two partitions."""
    town: Town = request.getfixturevalue("town")
    node = Pipeline("p").stream("s", Kafka(town.named("s"), key=Text("id"), value=JSON({"n": "INT"})))
    town.make("s", 2)
    return of(town, node, lambda numbers: town.send("s", *[(n % 2, f"k{n}", {"n": n}, n) for n in numbers]))


def of_database(request: pytest.FixtureRequest) -> Source:
    """A table of PostgreSQL: a snapshot, then changes."""
    base: Base = request.getfixturevalue("base")
    base.do("CREATE TABLE s (id int PRIMARY KEY, n int)")
    node = Pipeline("p").stream("s", base.table("s", {"id": "INT", "n": "INT"}))
    rows = "INSERT INTO s SELECT n, n FROM generate_series({}, {}) n"
    return of(base, node, lambda numbers: base.do(rows.format(numbers.start, numbers.stop - 1)))


def of_delta_table(request: pytest.FixtureRequest, changes: Any) -> Source:
    """A Delta table: rows that are added, or its change feed."""
    shed: Shed = request.getfixturevalue("shed")
    reads = DeltaTable("orders", changes=changes, schema={"id": "STRING", "n": "BIGINT"})
    node = Pipeline("p").stream("s", reads, key=["id"], value=["n"])
    return of(shed, node, lambda numbers: shed.put(*[(f"k{n}", n) for n in numbers], fed=changes == "feed"))


KINDS: Mapping[str, Callable[[pytest.FixtureRequest], Source]] = {
    **{suffix: partial(of_files, suffix=suffix) for suffix in ("csv", "csv.gz", "zip", "json", "json.gz")},
    "topic": of_topic,
    "database": of_database,
    **{f"delta {changes}": partial(of_delta_table, changes=changes) for changes in ("append", "feed")},
}
