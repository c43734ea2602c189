"""What an epoch leaves in the log: counts of its one aggregate, its positions, and when it was committed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.delta.lines import append_lines, open_table
from rivermeet.infra.engine.session import new_session
from rivermeet.pipelines import JoinWindow
from tests.joins.epochs.batch import TYPES, two_streams
from tests.world import World


@pytest.mark.slow
def test_an_epoch_is_measured(tmp_path: Path, spark: SparkSession) -> None:
    left, right = two_streams()
    select = {"l": "left.v", "r": "right.v"}
    joined = left.left_join(right, "ab", window=JoinWindow(10, 10, 5), select=select)
    named = joined.map_values({"l": "upper(l)"}, "named")
    world = World(tmp_path, spark, new_session(spark), {"a": TYPES, "b": TYPES})
    # The window of `alone` has closed when `open` comes, whose own has not.
    world.publish(left, [(("met",), ("a",), 0, 0), (("alone",), ("b",), 1, 0), (("open",), ("c",), 100, 0)])
    world.publish(right, [(("met",), ("d",), 2, 0)])
    start = time.time() * 1000
    world.run(joined)
    world.publish(right, [(("open",), ("e",), 101, 0)])
    world.run(joined)
    world.run(named)

    log = world.runner(joined.pipeline.name).log
    first, second = log.measurements("ab")
    expected: dict[str, Any] = {
        **{"epoch": 1, "incarnation": 1, "rows": 2, "tombstones": 0, "one_sided": 1, "late": 0, "newest_event": 100},
        **{"rows_in": {"left": 3, "right": 1}, "consumed": {"left": [1, 3], "right": [1, 1]}, "delivered_at": None},
    }
    assert {name: first[name] for name in expected} == expected
    assert start <= first["committed_at"] <= second["committed_at"] <= time.time() * 1000
    assert (second["rows"], second["one_sided"], second["newest_event"]) == (1, 0, 101)
    assert (second["rows_in"], second["consumed"]) == ({"left": 0, "right": 1}, {"left": [1, 3], "right": [1, 2]})
    # Rows of other operators do not show whether they had a partner.
    (other,) = log.measurements("named")
    assert (other["rows"], other["one_sided"]) == (3, None)
    # What replaces all rows is staged as they are; of a table with other names for its columns, Spark appends it.
    world.rebuild(named)
    path = world.runner(named.pipeline.name).paths(named).changelog
    world.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    world.rebuild(named)
    assert [line["staged"] for line in log.measurements("named")] == [True, True, False]


def test_lines_of_an_older_version_have_no_value_in_new_columns(tmp_path: Path) -> None:
    path, old = str(tmp_path / "lines"), pa.schema([("a", pa.int64())])
    append_lines([{"a": 1}], old, path, "x", 1)
    append_lines([{"a": 2, "b": 3}], pa.schema([*old, ("b", pa.int64())]), path, "x", 2)
    table = open_table(path)
    assert table is not None
    lines = sorted(table.to_pyarrow_table().to_pylist(), key=lambda line: line["a"])
    assert lines == [{"a": 1, "b": None}, {"a": 2, "b": 3}]
