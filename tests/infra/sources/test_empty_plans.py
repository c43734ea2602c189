"""What a source plans for no row at all: next to nothing, however many columns it has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.small_frames import no_rows
from rivermeet.infra.sources.debezium.kept_values import ABSENT
from rivermeet.infra.sources.delta.rows import no_rows as no_versions
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.infra.sources.files.discovery import FileState
from rivermeet.infra.sources.files.reading import read
from rivermeet.infra.sources.kafka import landing as topics
from rivermeet.infra.sources.kafka.rows import decode_landed as records_of
from rivermeet.infra.sources.landing_folder import LandingFolder
from rivermeet.infra.sources.postgres import landing as tables
from rivermeet.infra.sources.postgres.rows import decode_landed
from rivermeet.infra.sources.row_to_record import to_records
from rivermeet.pipelines import JSON, Avro, Debezium, DeltaTable, Files, Kafka, Pipeline, Postgres, Protobuf, Source
from rivermeet.pipelines.reads.kafka import Format
from rivermeet.pipelines.source import Reads
from tests.plans import KINDS, NESTED, assert_linear, columns, sizes
from tests.reliability import handled

pytestmark = pytest.mark.slow
FORMATS: dict[str, Callable[[dict[str, str]], Format]] = {
    "JSON": JSON,
    "Avro": Avro,
    "Protobuf": lambda schema: Protobuf(schema, "shop.Order"),
    "Debezium": Debezium,
}


def _source(reads: Reads) -> Source:
    declared = Pipeline("shop").table("t", reads, key=["id"], timestamp="1").source
    assert declared is not None
    return declared


def _of_postgres(spark: SparkSession, root: Path, width: int) -> DataFrame:
    reads = Postgres("shop.public.t", {"id": "INT", **columns(width, KINDS)}, "id")
    landing = LandingFolder(root, tables.landing_schema(len(reads.columns)))
    return to_records(decode_landed(landing.read(spark), reads), _source(reads))


def _of_topic(format: str) -> Callable[[SparkSession, Path, int], DataFrame]:
    def frame(spark: SparkSession, root: Path, width: int) -> DataFrame:
        value = FORMATS[format](columns(width, (*KINDS, *NESTED)))
        reads = Kafka("t", key=FORMATS[format]({"id": "INT"}), value=value)
        landed = records_of(LandingFolder(root, topics.SCHEMA).read(spark), reads)
        return to_records(landed, _source(reads), "kafka_partition", ABSENT if reads.envelope else None)

    return frame


def _of_delta(spark: SparkSession, root: Path, width: int) -> DataFrame:
    path, kinds = str(root / f"of-{width}"), {"id": "INT", **columns(width, (*KINDS, *NESTED))}
    if not Path(path).exists():
        ddl = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        write_deltalake(path, no_rows(spark, ddl).toArrow())
    reads = DeltaTable(path, "feed", kinds)
    return to_records(no_versions(spark, reads, VersionRange(path=path, id="", start=1, end=0)), _source(reads))


def _of_files(spark: SparkSession, root: Path, width: int) -> DataFrame:
    reads = Files("*.csv", "csv", {"id": "INT", **columns(width, KINDS)})
    return read(spark, _source(reads), 4, []).parsed


EMPTY = {
    "PostgreSQL": _of_postgres,
    **{f"topic, {name}": _of_topic(name) for name in FORMATS},
    "Delta": _of_delta,
    "files": _of_files,
}


@pytest.mark.parametrize("of", EMPTY)
def test_no_row_is_no_plan_whatever_the_columns(spark: SparkSession, tmp_path: Path, of: str) -> None:
    found = assert_linear(lambda width: EMPTY[of](spark, tmp_path, width))
    assert all(optimised < 1_000 for _, optimised in found.values())
    handled("PostgreSQL, Kafka, Delta", "a source of 40 columns without a change in an epoch", "planned in a moment")


def test_files_that_cannot_be_read_are_planned_by_their_number(spark: SparkSession) -> None:
    gone = FileState("/in/gone.csv", 1, 1)

    def dead(width: int) -> DataFrame:
        reads = Files("*.csv", "csv", {"id": "INT", **columns(width, KINDS)})
        return read(spark, _source(reads), 4, [gone], {gone.path: "it is gone"}).parsed

    assert_linear(dead)


def test_all_that_is_above_no_rows_goes(spark: SparkSession) -> None:
    empty = no_rows(spark, "a STRING, b STRING")
    for _ in range(12):
        empty = empty.select(F.concat("a", "b").alias("a"), F.concat("b", "a").alias("b"))
    assert sizes(empty)[1] < 1_000
