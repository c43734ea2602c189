"""One node of each kind, and relations for it written as JSON: frame and SQL are the same text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from expectations.evaluate import Judged, Relation
from pipelines import Files, JoinWindow, Node, Pipeline

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]

_FILES = Files("none/*.csv", "csv", {"id": "INT", "n": "STRING", "at": "BIGINT"})
_SHOP = Pipeline("shop")
_HOW = {"key": ["id"], "value": ["n"], "timestamp": "at", "partitions": 2}

clicks = _SHOP.stream("clicks", _FILES, **_HOW)
views = _SHOP.stream("views", _FILES, **_HOW)
names = _SHOP.global_table("names", _FILES, key=["id"], value=["n"], timestamp="at")
orders = _SHOP.table("orders", _FILES, **_HOW)
owners = _SHOP.table("owners", _FILES, **_HOW)

_BOTH = {"a": "left.n", "b": "right.n"}
_WINDOW = JoinWindow(2, 3, grace=1)
seen = clicks.left_join(views, "seen", window=_WINDOW, select=_BOTH)
seen_inner = clicks.join(views, "seen_inner", window=_WINDOW, select=_BOTH)
seen_outer = clicks.outer_join(views, "seen_outer", window=_WINDOW, select=_BOTH)
named = clicks.left_join(names, "named", key="n", select=_BOTH)
owned = orders.left_join(owners, "owned", foreign_key="n", select=_BOTH)
both = orders.left_join(owners, "both", select=_BOTH)
both_inner = orders.join(owners, "both_inner", select=_BOTH)
owned_inner = orders.join(owners, "owned_inner", foreign_key="n", select=_BOTH)

_RECORD = "key STRUCT<id: INT>, value STRUCT<{}>, timestamp BIGINT, partition INT, offset BIGINT"
_INPUT = _RECORD.format("n: STRING")
_OUTPUT = _RECORD.format("a: STRING, b: STRING") + (
    ", epoch BIGINT, trigger STRUCT<side: STRING, partition: INT, offset: BIGINT>"
)
_PAIR = _OUTPUT + ", left_offset BIGINT, right_offset BIGINT"
_ANSWER = _OUTPUT + ", made_for STRUCT<n: STRING>"
_POSITION = "_timestamp BIGINT, _partition INT, _offset BIGINT"
_LATE = (
    "side STRING, key STRUCT<id: INT>, value STRING, timestamp BIGINT, partition INT, offset BIGINT, "
    "stream_time BIGINT, close BIGINT, reason STRING, epoch BIGINT"
)


def _schema(node: Node, relation: str) -> str:
    if relation == "bounds":
        return "partition INT, first_offset BIGINT"
    if relation in ("table", "before"):
        value = "n STRING" if node.source else "a STRING, b STRING"
        return f"id INT, {value}, {_POSITION}"
    if relation == "late":
        return _LATE
    if relation in ("left", "right"):
        return _INPUT
    if node.join_spec is None:
        return f"{_INPUT}, epoch BIGINT"
    return {"stream-stream": _PAIR, "fk-table-table": _ANSWER}.get(node.join_spec.family, _OUTPUT)


def sql_of(node: Node, relation: str, rows: Sequence[Row]) -> str:
    """A subquery with these rows; fields that a row lacks are NULL."""
    schema, text = _schema(node, relation), json.dumps(list(rows))
    columns = "*"
    if "made_for" in schema:
        # The hash of the left value that the row was made for, as the join computes it.
        columns = "*, CASE WHEN made_for IS NOT NULL THEN xxhash64(made_for) END AS left_hash"
    array = f"from_json('{text}', 'ARRAY<STRUCT<{schema}>>')"
    return f"(SELECT {columns} FROM (SELECT inline({array})))"


def judged_on(spark: Any, node: Node, rows: Rows) -> Judged:
    def relation(name: str) -> Relation:
        sql = sql_of(node, name, rows[name])
        return Relation(spark.sql(f"SELECT * FROM {sql}"), sql)

    checked: dict[str, int | None] = {name: len(given) for name, given in rows.items()}
    # What was dropped is judged among all that was read.
    checked["late"] = sum(len(rows.get(side, ())) for side in ("left", "right"))
    return Judged({name: (lambda name=name: relation(name)) for name in rows}, checked)
