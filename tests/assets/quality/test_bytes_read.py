"""Of a large table an audit reads what it must for the keys of a small epoch, and finds the same as in all of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake

from rivermeet.assets.quality.relations.epoch import live_rows
from rivermeet.assets.quality.relations.parts import node_part, table_part
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.judge.duck import _Views, database
from rivermeet.expectations.results import Judged, Relation
from rivermeet.infra.delta.layout import NodeTables
from tests.expectations import nodes
from tests.expectations.nodes import IN_PROCESS

LARGE = 200_000
(RULE,) = (rule for rule in invariants_of(nodes.owned) if rule.id == "foreign_key_hash")


def _struct(name: str, values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values], [name])


def _records(ids: Sequence[int | None]) -> pa.Table:
    numbers = pa.array(ids, pa.int32())
    return pa.table(
        {
            "key": _struct("id", numbers),
            "value": _struct("n", numbers.cast(pa.string())),
            "timestamp": pa.repeat(1, len(ids)),
            "partition": pa.array([0] * len(ids), pa.int32()),
            "offset": pa.array(range(len(ids)), pa.int64()),
            "epoch": pa.repeat(1, len(ids)),
        }
    )


@pytest.fixture
def orders(tmp_path: Path) -> Relation:
    """Live rows of a table that was folded in the order of its keys, one of which is NULL, and of two changes since."""
    paths = NodeTables(str(tmp_path), "shop", "orders")
    ids = [*range(LARGE), None]
    numbers = pa.array(ids, pa.int32())
    place = {f"_{name}": _records(ids)[name] for name in ("timestamp", "partition", "offset")}
    table = pa.table({"id": numbers, "n": pa.array([f"{i}" * 20 for i in ids]), **place})
    write_deltalake(paths.table, table, writer_properties=WriterProperties(max_row_group_size=5_000))
    write_deltalake(paths.changelog, _records([7, LARGE + 1]))
    tail = Relation("SELECT * FROM {changelog}", {"changelog": node_part(paths, "changelog", 0)})
    return live_rows(paths, 0, {0: 0}, {0: 1}, tail)


def _judged(folder: Path, left: Relation, ids: Sequence[int | None]) -> tuple[list[tuple[str, str]], int]:
    """Keys whose hash is found to be wrong, each with whether a row has it, and bytes that were read."""
    rows = _records(ids).append_column("left_hash", pa.repeat(0, len(ids)))
    write_deltalake(str(folder / "rows"), rows, mode="overwrite")
    own = Relation("SELECT * FROM {rows}", {"rows": table_part(str(folder / "rows"), "rows", 0)})
    with database("1g", IN_PROCESS.spill) as connection:
        views = _Views(connection, nodes.owned, Judged({"rows": lambda: own, "left": lambda: left}, {"rows": 0}))
        connection.execute("PRAGMA enable_profiling = 'json'")
        connection.execute(f"SET profiling_output = '{folder / 'profile.json'}'")
        found = views.result(RULE, sample=20)
        connection.execute("PRAGMA disable_profiling")
        ((parsed,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [found.sql]).fetchall()
    assert found.error is None and not json.loads(parsed)["error"], "what is shown runs in `rivermeet sql`"
    read = json.loads((folder / "profile.json").read_text())["io"]["total_bytes_read"]
    return sorted((row["key"], row["left_row_exists"]) for row in found.sample), read


def test_what_an_epoch_does_not_touch_is_not_read(tmp_path: Path, orders: Relation) -> None:
    ids = [7, 8, 4_000, LARGE + 1, LARGE + 2, None]
    some, read = _judged(tmp_path, orders, ids)
    every, whole = _judged(tmp_path, replace(orders, key=()), ids)
    there = [(json.dumps({"id": i}), "false" if i == LARGE + 2 else "true") for i in ids]
    assert some == every == sorted(there)
    assert read < whole / 5
