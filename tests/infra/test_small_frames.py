"""Rows of the driver as frames, and none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from rivermeet.infra.small_frames import frame_of, no_rows

FILES = pa.schema([("file", pa.string()), ("rank", pa.int32()), ("parts", pa.list_(pa.string()))])
DDL = "file STRING, rank INT, parts ARRAY<STRING>"


@pytest.mark.parametrize("rows", [[], [("/in/a.csv", 0, ["x", None]), (None, None, None)]])
def test_they_are_what_was_given(spark: SparkSession, rows: list[tuple[Any, ...]]) -> None:
    frame = frame_of(spark, rows, FILES)
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("file", "string"),
        ("rank", "int"),
        ("parts", "array<string>"),
    ]
    assert [tuple(row) for row in frame.collect()] == rows


def test_none_have_their_columns(spark: SparkSession) -> None:
    frame = no_rows(spark, f"{DDL}, key STRUCT<k: STRING>")
    assert (frame.columns, frame.collect()) == (["file", "rank", "parts", "key"], [])
    assert frame.schema["key"].dataType.simpleString() == "struct<k:string>"


def test_none_are_of_types_that_any_reader_of_delta_knows(spark: SparkSession, tmp_path: Path) -> None:
    parts = T.MapType(T.StringType(), T.ArrayType(T.StringType()))
    kind = T.StructType().add("file", T.StringType()).add("in", T.StructType().add("a `b`", T.StringType()))
    path = str(tmp_path / "table")
    no_rows(spark, kind.add("parts", parts)).write.format("delta").option("delta.columnMapping.mode", "name").save(path)
    (log,) = (tmp_path / "table" / "_delta_log").glob("*.json")
    assert "collate" not in log.read_text()
    assert spark.read.format("delta").load(path).select("in.`a ``b```").columns == ["a `b`"]


def test_none_leave_no_trace_in_a_plan(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    some = frame_of(spark, [("/in/a.csv", 0, ["x"])], FILES)
    some.unionByName(no_rows(spark, DDL)).groupBy("file").count().explain()
    plan = capsys.readouterr().out
    assert "HashAggregate" in plan
    assert "Union" not in plan and "Range" not in plan, plan
