"""What DuckDB reads of a table's files is what Spark reads of the table, at each of its versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyarrow.fs import copy_files
from pyspark.sql import SparkSession

from rivermeet.expectations.judge.duck import database
from rivermeet.infra.delta.io import FOLDED
from rivermeet.infra.delta.location import files_below
from rivermeet.infra.delta.scan import UnreadableTableError, rows_of, scan

PROPERTIES = ", ".join(f"'{name}' = '{value}'" for name, value in FOLDED.items())


def mine(path: str, version: int, spill: Path) -> list[tuple[Any, ...]]:
    found = scan(path, version)
    assert found is not None
    with database("1g", spill) as connection:
        return sorted(connection.execute(rows_of(found, connection)).fetchall(), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("mapped", [False, True])
def test_each_version_has_sparks_rows(spark: SparkSession, tmp_path: Path, s3: str, mapped: bool) -> None:
    """Deletion vectors by DELETE and MERGE, a column and a field that came later, columns under other names.

    Here, and where its files are copied to a store.
    """
    path = tmp_path / "it's a table"
    more = ", 'delta.columnMapping.mode' = 'name'" if mapped else ""
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, s STRUCT<a: INT>, l ARRAY<STRUCT<x: INT>>) USING delta "
        f"TBLPROPERTIES ({PROPERTIES}{more})"
    )
    rows = (
        "CAST(id AS INT) AS id, named_struct('a', CAST(id AS INT)) AS s, array(named_struct('x', CAST(id AS INT))) AS l"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT {rows} FROM range(2000)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 7 = 3")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (t STRING, s.b STRING)")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT -1, named_struct('a', NULL, 'b', 'b'), NULL, 't'")
    if mapped:
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN t TO `a name`")
    spark.sql(f"UPDATE delta.`{path}` SET id = id + 10000 WHERE id % 100 = 0")
    versions = [row.version for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()]
    assert len(versions) >= 6
    gone = scan(str(path))
    assert gone is not None and gone.deleted and gone.mapped == mapped
    there = f"{s3}/table"
    copy_files(str(path), "", destination_filesystem=files_below(there))
    for version in versions:
        rows = spark.read.format("delta").option("versionAsOf", version).load(str(path)).toArrow()
        theirs = [tuple(row.values()) for row in rows.to_pylist()]
        for where in (str(path), there):
            assert mine(where, version, tmp_path / "spill") == sorted(theirs, key=repr), (where, version)


def test_a_folder_that_looks_like_a_column_is_none(tmp_path: Path) -> None:
    """Below ``epoch=0`` every record was of epoch 0 to the judge, and all rules held."""
    path = str(tmp_path / "epoch=0" / "changelog")
    write_deltalake(path, pa.table({"epoch": [1, 2], "offset": [0, 0]}))
    assert mine(path, 0, tmp_path / "spill") == [(1, 0), (2, 0)]


def test_what_only_spark_reads_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "parts"), pa.table({"p": [1], "x": [2]}), partition_by=["p"])
    with pytest.raises(UnreadableTableError, match="is partitioned by p: Spark reads it"):
        scan(str(tmp_path / "parts"))
    assert scan(str(tmp_path / "none")) is None
