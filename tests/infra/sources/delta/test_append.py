"""Versions that append rows: each row once, in the order of versions, however they are cut into epochs."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rivermeet.infra.sources.delta.refusals import RowsRemovedError, TableUnreadableError
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.pipelines import DeltaTable, Pipeline, Stream
from tests.infra.sources.delta.shed import Shed
from tests.reliability import survived

SCHEMA = {"id": "STRING", "n": "INT"}


def orders(name: str = "orders", partitions: int = 1, **options: object) -> Stream:
    source = DeltaTable("orders", schema=SCHEMA, **options)  # pyright: ignore[reportArgumentType]
    return Pipeline("shop").stream(name, source, key=["id"], partitions=partitions)


def ranged(result: object) -> VersionRange:
    found = result.plan.reads  # pyright: ignore[reportAttributeAccessIssue]
    assert found is not None
    return found


def test_versions_in_three_epochs_are_those_in_one(shed: Shed) -> None:
    cut, whole = orders(), orders("whole")
    shed.put(("a", 1), ("b", 2))
    assert ranged(shed.run(cut)).description == f"versions 0 to 0 of Delta table '{shed.path()}'"
    shed.put(("c", 3))
    shed.put(("a", 4), ("d", 5))
    assert (ranged(shed.run(cut)).start, shed.run(cut)) == (1, None), "nothing is new then"
    shed.sql("INSERT INTO {t} VALUES ('b', 6), ('e', 7)")
    shed.run(cut)
    shed.run(whole)
    assert shed.records(cut) == shed.records(whole)
    assert shed.said(cut) == [("a", 1), ("b", 2), ("c", 3), ("a", 4), ("d", 5), ("b", 6), ("e", 7)]


def test_what_a_commit_says(shed: Shed) -> None:
    shed.put(("a", 1))
    shed.put(("b", 2))
    value = ["n", "delta_version", "delta_change", "delta_tombstone"]
    node = Pipeline("shop").stream("orders", DeltaTable("orders", schema=SCHEMA), key=["id"], value=value, partitions=1)
    shed.run(node)
    times = [commit["timestamp"] for commit in reversed(shed.table().history())]
    assert shed.records(node) == [
        (0, "a", (1, 0, "insert", False), times[0]),
        (0, "b", (2, 1, "insert", False), times[1]),
    ]


def test_compaction_gives_nothing(shed: Shed) -> None:
    node = orders()
    shed.put(("a", 1))
    shed.put(("b", 2))
    shed.run(node)
    shed.table().optimize.compact()
    shed.put(("c", 3))
    result = shed.run(node)
    assert result is not None and (ranged(result).start, ranged(result).end, result.rows) == (2, 3, 1)
    shed.sql("OPTIMIZE {t}")
    result = shed.run(node)
    assert result is not None and result.rows == 0, "the position moves on"
    assert shed.said(node) == [("a", 1), ("b", 2), ("c", 3)]
    survived("a Delta table that is read is compacted", "no record: no row has changed")


def test_a_version_that_removes_rows_is_refused(shed: Shed) -> None:
    node = orders()
    shed.put(("a", 1), ("b", 2))
    shed.run(node)
    shed.put(("c", 3))
    shed.table().delete("id = 'a'")
    shed.put(("d", 4))
    for _ in range(2):
        with pytest.raises(RowsRemovedError, match=r"version 2 removed rows.*rivermeet rebuild shop --select orders"):
            shed.run(node)
    result = shed.run(node, accept_loss=True)
    assert result is not None and ranged(result).passed == (2,)
    assert shed.said(node) == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    result = shed.rebuild(node)
    assert result is not None and ranged(result).snapshot == 3, "a first epoch takes what there is"
    assert sorted(shed.said(node)) == [("b", 2), ("c", 3), ("d", 4)]
    survived("rows removed from a Delta table that is read as append-only", "refused; a rebuild starts over")


def test_an_overwrite_is_refused(shed: Shed) -> None:
    node = orders()
    shed.put(("a", 1))
    shed.run(node)
    shed.put(("z", 9), mode="overwrite")
    with pytest.raises(RowsRemovedError, match="version 1 removed rows"):
        shed.run(node)


def test_partition_columns_and_odd_names(shed: Shed) -> None:
    """Values of partition columns are in the log alone, percent-encoded in the names of folders."""
    given = pa.table({"id": ["a", "b", "c"], "n": [1, 2, 3], "day": ["1 %/ü=x", None, "1970-01-02"]})
    write_deltalake(shed.path(), given, partition_by=["day"])
    shed.sql("INSERT INTO {t} VALUES ('d', 4, 'x y:z')")
    schema = {**SCHEMA, "day": "STRING"}
    node = Pipeline("shop").stream("orders", DeltaTable("orders", schema=schema), key=["id"], partitions=1)
    shed.run(node)
    found = sorted((key, value) for _, key, value, _ in shed.records(node))
    assert found == [("a", (1, "1 %/ü=x")), ("b", (2, None)), ("c", (3, "1970-01-02")), ("d", (4, "x y:z"))]


def test_columns_that_come_later(shed: Shed) -> None:
    """Rows of before have NULL there, and a type that got wider is read as it is now."""
    shed.put(("a", 1))
    wider = pa.table({"id": ["b"], "n": pa.array([2], pa.int64()), "note": ["new"]})
    write_deltalake(shed.path(), wider, mode="append", schema_mode="merge")
    schema = {"id": "STRING", "n": "BIGINT", "note": "STRING"}
    node = Pipeline("shop").stream("orders", DeltaTable("orders", schema=schema), key=["id"], partitions=1)
    shed.run(node)
    assert shed.said(node) == [("a", (1, None)), ("b", (2, "new"))]


def test_a_column_that_there_is_not(shed: Shed) -> None:
    shed.put(("a", 1))
    node = Pipeline("shop").stream("orders", DeltaTable("orders", schema={"id": "STRING", "m": "INT"}), key=["id"])
    with pytest.raises(TableUnreadableError, match=r"has no column 'm' \(it has id, n\)"):
        shed.run(node)


def test_column_mapping_is_refused(shed: Shed) -> None:
    """Its files have columns of other names."""
    shed.sql("CREATE TABLE {t} (id STRING, n INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    with pytest.raises(TableUnreadableError, match="has the feature columnMapping"):
        shed.run(orders())


def test_rows_in_a_declared_order(shed: Shed) -> None:
    shed.put(("a", 3), ("b", 1), ("c", 2))
    shed.put(("d", 0))
    node = orders(order=("n",))
    shed.run(node)
    assert shed.said(node) == [("b", 1), ("c", 2), ("a", 3), ("d", 0)]
