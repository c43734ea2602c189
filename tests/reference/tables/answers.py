"""What the reference answers to a case in the format of Kafka Streams' oracle.

answers({"join": "table-table", "type": "inner", "semantics": "kafka-4", "input": [
    {"side": "left", "key": "k", "value": "A", "ts": 1}, {"side": "right", "key": "k", "value": "a", "ts": 2}]})
[["k", "A-a", 2, 1]]     key, value, timestamp, index of the record that caused it
"""

from typing import Any

from rivermeet.joins.reference.records import Row
from rivermeet.joins.stream_global.reference import StreamGlobalJoin
from rivermeet.joins.stream_table.reference import StreamTableJoin
from rivermeet.joins.table_table.reference import TableTableJoin
from tests.reference.histories import foreign_key_of, records_of


def answers(case: dict[str, Any]) -> list[list[Any]]:
    """[key, value, timestamp, in] of each row, in order; ValueError where Kafka Streams dies."""
    join = join_of(case)
    every = case.get("commit_every", 1)
    records = records_of([(r["side"], r["key"], r["value"], r["ts"]) for r in case["input"]])
    rows: list[Row] = []
    for x in records:
        rows += join.process(x)
        if isinstance(join, TableTableJoin) and ((x.position + 1) % every == 0 or x is records[-1]):
            rows += join.commit()
    return [[row.key, text(row.value), row.timestamp, row.trigger] for row in rows]


def join_of(case: dict[str, Any]) -> StreamTableJoin | TableTableJoin | StreamGlobalJoin:
    how, semantics = case["type"], case["semantics"]
    names = ("left_versioned_ms", "right_versioned_ms", "table_grace_ms", "materialized", "cache")
    given = {name: case[name] for name in names if name in case}
    if case["join"] == "stream-table":
        return StreamTableJoin(how, semantics, **given)
    if case["join"] == "table-table":
        return TableTableJoin(how, semantics, **given)
    mapper = foreign_key_of if case["selector"] == "fk" else lambda key, value: key
    return StreamGlobalJoin(how, mapper, semantics)


def text(value: tuple[Any, Any] | None) -> str | None:
    """The oracle's value joiner."""
    return value and "-".join("null" if part is None else part for part in value)
