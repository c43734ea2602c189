"""Conditions on offsets hold for the records that they name, and readers skip the rest of a file by them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivermeet.expectations.judge.duck import database
from rivermeet.expectations.judge.spark_sql import duck
from rivermeet.infra.delta.changelog_files import between_sql

HUNDRED = pa.table(
    {
        "partition": pa.array([p for p in range(20) for _ in range(100)], pa.int32()),
        "offset": pa.array([o for _ in range(20) for o in range(100)], pa.int64()),
        "value": [f"{p}-{o}" * 100 for p in range(20) for o in range(100)],
    }
)


@pytest.mark.parametrize(
    ("after", "upto", "text"),
    [
        ({}, {}, "false"),
        ({0: 9}, {0: 9}, "false"),
        ({0: 9}, {0: 11}, "offset > 9 AND offset <= 11 AND ((partition = 0 AND offset > 9 AND offset <= 11))"),
        (
            {0: 9},
            {0: 11, 2: 1},
            "offset > -1 AND offset <= 11 AND ((partition = 0 AND offset > 9 AND offset <= 11) OR "
            "(partition = 2 AND offset > -1 AND offset <= 1))",
        ),
    ],
)
def test_the_range_of_all_goes_first(after: dict[int, int], upto: dict[int, int], text: str) -> None:
    assert between_sql(after, upto) == text


def _asked(path: Path, condition: str) -> tuple[int, int]:
    """Rows found, and bytes that were read for them."""
    with database("1g", path.parent / "spill") as connection:
        connection.execute("PRAGMA enable_profiling = 'json'")
        connection.execute(f"SET profiling_output = '{path.parent / 'profile.json'}'")
        query = f"SELECT count(DISTINCT value) FROM read_parquet('{path}') WHERE {duck(f'SELECT {condition}')[7:]}"
        ((found,),) = connection.execute(query).fetchall()
    return found, json.loads((path.parent / "profile.json").read_text())["io"]["total_bytes_read"]


@pytest.mark.parametrize("partitions", [4, 20])
def test_a_reader_skips_what_lies_outside_of_it(tmp_path: Path, partitions: int) -> None:
    """A file's rows lie as they were written: by partition, each with all of its offsets."""
    rows = HUNDRED.filter([p < partitions for p in HUNDRED["partition"].to_pylist()])
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=10, compression="none", use_dictionary=False)
    condition = between_sql({p: 97 - p % 2 for p in range(partitions)}, dict.fromkeys(range(partitions), 98))
    found, read = _asked(tmp_path / "rows.parquet", condition)
    _, whole = _asked(tmp_path / "rows.parquet", "true")
    assert found == partitions // 2 * (1 + 2)
    assert read < whole / 3
