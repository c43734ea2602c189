"""The hash of DuckDB's judge is Spark's, of values of every type that a value may have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from rivermeet.assets.quality.relations.parts import table_part
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.judge import xxhash64
from rivermeet.expectations.judge.xxhash64 import as_bigint
from rivermeet.expectations.results import Judged, Relation
from tests.expectations import nodes
from tests.expectations.nodes import IN_PROCESS

VALUES = (
    "named_struct('i', id, 's', repeat('aé😀', CAST(id AS INT)), 'n', IF(id % 3 = 0, NULL, id * 7))",
    "named_struct('t', CAST(id AS TINYINT), 'h', CAST(id AS SMALLINT), 'i', CAST(-id AS INT), 'b', id % 2 = 0)",
    "named_struct('d', CASE id WHEN 0 THEN -0.0D WHEN 1 THEN DOUBLE('NaN') ELSE id / 3 END, 'f', FLOAT(id / 7))",
    "named_struct('m', CAST(id * -1.25 AS DECIMAL(10,2)), 'w', CAST(id * -123456789012345678.5 AS DECIMAL(38,2)))",
    "named_struct('w', CAST('1234567890123456789012345678.0000000001' AS DECIMAL(38,10)) + id)",
    "named_struct('day', date_add(DATE'1969-12-20', CAST(id AS INT)), 'at', timestamp_micros(id * 1000001 - 5000000))",
    "named_struct('x', CAST(repeat('z', CAST(id AS INT)) AS BINARY), 'a', IF(id = 2, NULL, sequence(0L, id)))",
    "named_struct('a', transform(sequence(0, CAST(id AS INT)), n -> named_struct('k', n, 's', IF(n = 1, NULL, 'v'))))",
    "IF(id = 4, NULL, named_struct('inner', IF(id = 5, NULL, named_struct('n', IF(id = 6, NULL, id)))))",
)


@pytest.mark.parametrize("value", VALUES)
def test_it_is_sparks(spark: SparkSession, value: str) -> None:
    rows = spark.sql(f"SELECT value, xxhash64(value) AS hash FROM (SELECT {value} AS value FROM range(70))").toArrow()
    assert as_bigint(rows["value"]).to_pylist() == rows["hash"].to_pylist()


def test_a_map_has_none(spark: SparkSession) -> None:
    with pytest.raises(NotImplementedError, match="map"):
        as_bigint(spark.sql("SELECT map('a', 1) AS value").toArrow()["value"])


def test_few_of_many_rows_are_hashed_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a hundred thousand left rows a filter leaves two in each vector of DuckDB's."""
    calls = []

    def counted(values: pa.Array) -> pa.Array:
        calls.append(len(values))
        return as_bigint(values)

    monkeypatch.setattr(xxhash64, "as_bigint", counted)
    (rule,) = (rule for rule in invariants_of(nodes.owned) if rule.id == "foreign_key_hash")
    judged = Judged({"rows": lambda: _stored(tmp_path, "rows", 1000), "left": lambda: _stored(tmp_path, "left", 1)})
    (found,) = IN_PROCESS.evaluate(nodes.owned, [rule], judged)
    assert (found.violations, found.error) == (100, None)
    # Once for the sample, once for their number.
    assert calls == [100, 100]


def _stored(folder: Path, name: str, step: int) -> Relation:
    """A hundred thousand records, or each so manieth of them, in a file."""
    ids = pa.array(range(0, 100_000, step), pa.int32())
    record = {
        "key": pa.StructArray.from_arrays([ids], ["id"]),
        "value": pa.StructArray.from_arrays([ids.cast(pa.string())], ["n"]),
        "partition": pa.repeat(0, len(ids)),
        "offset": ids,
        "epoch": pa.repeat(1, len(ids)),
        "left_hash": pa.repeat(0, len(ids)),
    }
    write_deltalake(str(folder / name), pa.table(record))
    return Relation("SELECT * FROM {table}", {"table": table_part(str(folder / name), name, 0)})
