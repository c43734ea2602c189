"""One node of each kind, and relations for it written as JSON: both engines read the same text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pyarrow as pa
from sqlglot import transpile

from rivermeet.expectations.invariant import quote
from rivermeet.expectations.judge.duck import InProcess
from rivermeet.expectations.judge.xxhash64 import as_bigint
from rivermeet.expectations.results import Judged, Part, Relation
from rivermeet.pipelines import (
    JSON,
    Files,
    JoinWindow,
    Kafka,
    Node,
    Number,
    Pipeline,
    SlidingWindows,
    TimeWindows,
    average,
    count,
    expr,
    total,
)

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]

_FILES = Files("none/*.csv", "csv", {"id": "INT", "who": "STRING", "n": "STRING", "at": "BIGINT"})
_SHOP = Pipeline("shop")
_HOW: dict[str, Any] = {"key": ["id"], "value": ["n"], "timestamp": "at", "partitions": 2}
_NAMED: dict[str, Any] = _HOW | {"key": ["who"]}

clicks = _SHOP.stream("clicks", _FILES, **_HOW)
views = _SHOP.stream("views", _FILES, **_HOW)
names = _SHOP.global_table("names", _FILES, key=["who"], value=["n"], timestamp="at")
orders = _SHOP.table("orders", _FILES, **_HOW)
owners = _SHOP.table("owners", _FILES, **_HOW)
prices = _SHOP.table("prices", _FILES, history="100ms", **_HOW)
people = _SHOP.table("people", _FILES, **_NAMED)

_BOTH = {"a": "left.n", "b": "right.n"}
_WINDOW = JoinWindow(2, 3, grace=1)
seen = clicks.left_join(views, "seen", window=_WINDOW, select=_BOTH)
seen_inner = clicks.join(views, "seen_inner", window=_WINDOW, select=_BOTH)
seen_outer = clicks.outer_join(views, "seen_outer", window=_WINDOW, select=_BOTH)
seen_itself = clicks.left_join(clicks, "seen_itself", window=_WINDOW, select=_BOTH)
seen_later = clicks.join(views, "seen_later", window=JoinWindow(-1, 3, grace=1), select=_BOTH)
named = clicks.left_join(names, "named", key="n", select=_BOTH)
named_inner = clicks.join(names, "named_inner", key="n", select=_BOTH)
named_then = clicks.left_join(names, "named_then", key="n", bootstrap="timestamp", select=_BOTH)
looked = clicks.left_join(orders, "looked", select=_BOTH)
looked_inner = clicks.join(orders, "looked_inner", select=_BOTH)
priced = clicks.left_join(prices, "priced", select=_BOTH)
awaited = clicks.left_join(prices, "awaited", grace="50ms", select=_BOTH)
owned = orders.left_join(people, "owned", foreign_key="n", select=_BOTH)
owned_inner = orders.join(people, "owned_inner", foreign_key="n", select=_BOTH)
pets = people.one_to_many_join(orders, "pets", foreign_key="n", select=_BOTH)
both = orders.left_join(owners, "both", select=_BOTH)
both_inner = orders.join(owners, "both_inner", select=_BOTH)
both_outer = orders.outer_join(owners, "both_outer", select=_BOTH)
both_versioned = orders.left_join(prices, "both_versioned", select=_BOTH)
both_functions = orders.left_join(owners, "both_functions", select={"a": lambda left, right: left["n"]})
counted = (
    clicks.group_by_key()
    .windowed_by(TimeWindows(10, grace=2))
    .aggregate({"c": count(), "t": total("CAST(length(n) AS DOUBLE)")}, "counted")
)
slid = clicks.group_by_key().windowed_by(SlidingWindows(10, grace=2)).aggregate({"c": count()}, "slid")
weekly = counted.left_join(counted, "weekly", window_map=-10, select={"a": "left.c", "b": "right.c"})
grouped = orders.group_by({"who": expr("n", "STRING")}).aggregate({"c": count(), "m": average("id")}, "grouped")
kept = clicks.filter("n <> ''", "kept")

# Of topics, in whose partitions they stay.
_TOPIC = Kafka("none", key=Number("INT", "id"), value=JSON({"n": "STRING"}))
sales, refunds = (_SHOP.stream(name, _TOPIC, value=["n"]) for name in ("sales", "refunds"))
items, tags = (_SHOP.table(name, _TOPIC, value=["n"]) for name in ("items", "tags"))
tariffs = _SHOP.table("tariffs", _TOPIC, value=["n"], history="100ms")
returned = sales.left_join(refunds, "returned", window=_WINDOW, select=_BOTH)
itemised = sales.left_join(items, "itemised", select=_BOTH)
rated = sales.left_join(tariffs, "rated", select=_BOTH)
tagged = items.left_join(tags, "tagged", select=_BOTH)
sold = (
    sales.group_by_key()
    .windowed_by(TimeWindows(10, grace=2))
    .aggregate({"c": count(), "t": total("CAST(length(n) AS DOUBLE)")}, "sold")
)

_VALUES = {
    "counted": "c: BIGINT, t: DOUBLE",
    "sold": "c: BIGINT, t: DOUBLE",
    "slid": "c: BIGINT",
    "weekly": "a: BIGINT, b: BIGINT",
    "grouped": "c: BIGINT, m: DOUBLE",
}
_PLACE = "timestamp BIGINT, partition INT, offset BIGINT"
_TRIGGER = "epoch BIGINT, trigger STRUCT<side: STRING, partition: INT, offset: BIGINT>"
_FOLDED = "_timestamp BIGINT, _partition INT, _offset BIGINT"
_LATE = (
    "side STRING, key STRUCT<id: INT>, value STRING, timestamp BIGINT, partition INT, offset BIGINT, "
    "stream_time BIGINT, close BIGINT, reason STRING, epoch BIGINT"
)
_SMALL = {
    "bounds": "partition INT, first_offset BIGINT",
    "times": "partition INT, stream_time BIGINT",
    "sizes": "before BIGINT, after BIGINT",
    "unread": "side STRING, partition INT, records BIGINT",
    "late": _LATE,
}


_FLAT = ("table", "before", "was", "now", "stored")
"""Relations with the columns of a folded table."""


def _key(node: Node) -> str:
    return ", ".join(f"{column}: {kind}" for column, kind in node.key.items())


def _value(node: Node) -> str:
    made = node.operation
    given = made is None or (not made.select and node.name not in _VALUES)
    return "n: STRING" if given else _VALUES.get(node.name, "a: STRING, b: STRING")


def _schema(node: Node, relation: str) -> str:
    if relation in _SMALL:
        return _SMALL[relation]
    if relation in _FLAT:
        return f"{_key(node)}, {_value(node)}, {_FOLDED}".replace(":", "")
    if relation == "touched":
        return f"key STRUCT<{_key(node)}>"
    if relation == "placed":
        return f"key STRUCT<{_key(node)}>, partition INT"
    made = node.operation
    side = next((s for s in ("left", "right") if relation in (s, f"new_{s}", f"{s}_before")), None)
    if side is not None and made is not None:
        given = made.inputs[side]
        new = ", is_new BOOLEAN" if relation == side else ""
        return f"key STRUCT<{_key(given)}>, value STRUCT<{_value(given)}>, {_PLACE}{new}"
    record = f"key STRUCT<{_key(node)}>, value STRUCT<{_value(node)}>, {_PLACE}"
    if made is None:
        return f"{record}, epoch BIGINT"
    more = {
        "stream-stream": ", left_offset BIGINT, right_offset BIGINT",
        "fk-table-table": ", made_for STRUCT<n: STRING>",
    }
    return f"{record}, {_TRIGGER}{more.get(made.family, '')}"


def json_part(schema: str, rows: Sequence[Row]) -> Part:
    """Rows that are written out as JSON: both engines read the same text."""
    names = re.findall(r"(?:^|, )(`(?:[^`]|``)+`|\w+) (?![^<]*>)", schema)
    columns = [name.strip("`").replace("``", "`") for name in names]
    text = json.dumps([dict.fromkeys(columns) | row for row in rows]).replace("'", "''")
    cast = transpile(f"CAST(given AS ARRAY<STRUCT<{schema}>>)", read="databricks", write="duckdb")[0]
    query = f"SELECT unnest({cast}, max_depth := 2) FROM (SELECT CAST('{text}' AS JSON) AS given)"
    in_spark = f"SELECT inline(from_json('{json.dumps(list(rows))}', 'ARRAY<STRUCT<{schema}>>'))"
    return Part(f"({query})", "VALUES 1", lambda _: query, lambda spark: spark.sql(in_spark))


def written(node: Node, relation: str, rows: Sequence[Row]) -> Part:
    """A relation's rows; fields that a row lacks are NULL."""
    schema = _schema(node, relation)
    if "made_for" in schema:
        # The hash of the left value that the row was made for, as the join computes it.
        values = pa.array([row.get("made_for") for row in rows], pa.struct([("n", pa.string())]))
        hashes = [
            h if v is not None else None for h, v in zip(as_bigint(values).to_pylist(), values.to_pylist(), strict=True)
        ]
        return json_part(
            f"{schema}, left_hash BIGINT", [row | {"left_hash": h} for row, h in zip(rows, hashes, strict=True)]
        )
    return json_part(schema, rows)


def relation_of(node: Node, name: str, rows: Sequence[Row]) -> Relation:
    return made_of(node, name, written(node, name, rows))


def made_of(node: Node, name: str, part: Part) -> Relation:
    key = [quote(column) for column in node.key] if name in _FLAT else []
    return Relation("SELECT * FROM {table}", {"table": part}, key, is_folded=bool(key))


def judged_on(node: Node, rows: Rows) -> Judged:
    checked: dict[str, int | None] = {name: len(given) for name, given in rows.items()}
    # What was dropped is judged among all that was read.
    checked["read"] = sum(len(rows.get(side) or rows.get(f"new_{side}", ())) for side in ("left", "right"))
    return Judged({name: (lambda name=name: relation_of(node, name, rows[name])) for name in rows}, checked)


IN_PROCESS = InProcess("1g", Path(gettempdir()) / "spill")
"""The judge of this process."""
