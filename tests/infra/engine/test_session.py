from __future__ import annotations

import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rivermeet.infra.engine.process import EngineError
from rivermeet.infra.engine.session import _classic, new_session, refuse_no_master
from rivermeet.infra.settings import Settings
from tests.servers.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.both_engines

TXN = "spark.databricks.delta.write.txn"


def rows(spark: SparkSession, table: Path) -> list[tuple[int, str]]:
    return sorted((row.id, row.v) for row in spark.read.format("delta").load(str(table)).collect())


def append(spark: SparkSession, table: Path, value: str, version: int) -> None:
    frame = spark.range(2).selectExpr("id", f"'{value}' AS v").write.format("delta").mode("append")
    frame.option("txnAppId", "test").option("txnVersion", str(version)).save(str(table))


def test_an_append_takes_effect_once(spark: SparkSession, tmp_path: Path) -> None:
    append(spark, tmp_path / "t", "first", 1)
    append(spark, tmp_path / "t", "again", 1)
    assert rows(spark, tmp_path / "t") == [(0, "first"), (1, "first")]
    append(spark, tmp_path / "t", "next", 2)
    assert len(rows(spark, tmp_path / "t")) == 4


def test_a_merge_in_a_session_of_its_own_takes_effect_once(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    table = tmp_path / "t"
    append(spark, table, "old", 1)
    name = f"delta.`{table}`"
    for value in ("merged", "merged again"):
        other = new_session(spark)
        other.conf.set(f"{TXN}AppId", "fold")
        other.conf.set(f"{TXN}Version", "7")
        source = other.range(1, 3).selectExpr("id", f"'{value}' AS v").alias("source")
        merge = source.mergeInto(name, f.expr(f"source.id = {name}.id"))
        merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert rows(spark, table) == [(0, "old"), (1, "merged"), (2, "merged")]
    # The shared session must stay clean, or its next write would be skipped.
    append(spark, table, "after", 2)
    assert len(rows(spark, table)) == 5


def test_settings_of_a_new_session_are_its_own(spark: SparkSession) -> None:
    other = new_session(spark)
    other.conf.set(f"{TXN}AppId", "stamp")
    assert spark.conf.get(f"{TXN}AppId", None) is None
    assert new_session(spark).conf.get(f"{TXN}AppId", None) is None
    assert other.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_session_outlives_epochs_of_hours(spark: SparkSession) -> None:
    # Spark Connect's own limit is an hour without a request, less than a backlog of a hundred million records takes.
    assert spark.conf.get("spark.connect.session.manager.defaultSessionTimeout") == "7d"


def test_a_foreign_session_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"infra\.engine\.session\.session"):
        new_session(None)  # type: ignore[arg-type]


def test_python_runs_in_this_environment(spark: SparkSession) -> None:
    def versions(batches):  # type: ignore[no-untyped-def]
        import sys

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"prefix": [sys.prefix]})

    import sys

    found = spark.range(1, numPartitions=1).mapInArrow(versions, "prefix string").collect()
    assert {row.prefix for row in found} == {sys.prefix}


def test_an_engine_without_a_master_is_reported_in_one_line(settings: Settings) -> None:
    engine = f"spark://127.0.0.1:{free_port()},[::1]:{free_port()}"
    with pytest.raises(EngineError, match=rf"RIVERMEET_ENGINE={re.escape(engine)}: no Spark master answers there; "):
        _classic(replace(settings, engine=engine))


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        refuse_no_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{master.getsockname()[1]}")
