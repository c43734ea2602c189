"""Invariants of aggregates: each group and window is there once, and holds what its records come to.

    tumbling 10, count     a @7, a @9         (a, 0-10) 2
    by g, sum of n         a {g: x, n: 1}, b {g: x, n: 5}     x 6

Of windows, ``{arrived}`` has the records with key and value: ``left``, and of new ones the stream time ``reached`` with
them. Sums of DOUBLE may differ in their last digits, with the order in which they are added up.

Source: wiki page "Early joins" (windowed aggregate, KTable aggregate). Held by
``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from rivermeet.expectations.invariant import Rule, pack, quote
from rivermeet.expectations.rules.derived import SO_FAR
from rivermeet.expectations.rules.record_sql import fields_of, last_of, records, verbatim, with_fields, with_mapped_key
from rivermeet.expectations.rules.tables import exclude_versioned
from rivermeet.pipelines import Aggregation, Node, SlidingWindows, TableAggregate, TimeWindows, WindowedAggregate

_OF_WINDOWS = ("windowed-aggregate",)
_FUNCTIONS = {
    "count": "count({0})",
    "sum": "sum({0})",
    "min": "min({0})",
    "max": "max({0})",
    "avg": "CASE WHEN count({0}) > 0 THEN CAST(sum({0}) AS DOUBLE) / count({0}) END",
}
_CLOSE_TO = 1e-9


def _exclude_sliding(node: Node) -> str | None:
    if isinstance(_operation(node).windows, SlidingWindows):
        return "which sliding windows there are depends on other records; what they hold is aggregate_of_window"
    return None


def _arguments(aggregations: Mapping[str, Aggregation]) -> str:
    return ", ".join(f"{verbatim(a.of or '1')} AS __a{i}" for i, a in enumerate(aggregations.values()))


def _aggregate(aggregations: Mapping[str, Aggregation]) -> str:
    """Aggregate columns, each with the size of what went into it."""
    columns = []
    for i, (name, a) in enumerate(aggregations.items()):
        columns += [f"{_FUNCTIONS[a.function].format(f'__a{i}')} AS {quote(name)}"]
        columns += [f"sum(abs({_number(f'__a{i}')})) AS __size{i}"]
    return ", ".join(columns)


def _number(column: str) -> str:
    return f"try_cast(CAST({column} AS STRING) AS DOUBLE)"


def _differs(aggregations: Mapping[str, Aggregation]) -> str:
    """Whether the aggregate ``e`` is not that of ``t``, a row with the same columns."""
    wrong = []
    for i, (name, a) in enumerate(aggregations.items()):
        expected, stored = f"e.{quote(name)}", f"t.{quote(name)}"
        near = ""
        if a.function in ("sum", "avg"):
            apart = f"abs({_number(expected)} - {_number(stored)})"
            near = f" OR (typeof({expected}) = 'double' AND coalesce({apart} <= {_CLOSE_TO} * e.__size{i}, false))"
        wrong.append(f"NOT (({expected} <=> {stored}){near})")
    return " OR ".join(wrong)


def _select_stored(node: Node) -> str:
    return ", ".join(f"t.{quote(c)} AS {quote('stored ' + c)}" for c in node.value)


@Rule(
    "Early joins, KTable aggregate",
    ("table-aggregate",),
    (85,),
    needs_table=True,
    stage="table",
    excluded=exclude_versioned,
)
def aggregate_of_group(node: Node) -> str:
    """A group's aggregate is that of the rows that are in it now; a group without rows is gone."""
    made = cast(TableAggregate, node.operation)
    mapper = {column: e.sql for column, e in made.key.items()}
    grouped = with_mapped_key(records(made.input, "{left}", "left"), "left", mapper, node.key)
    in_groups = f"(SELECT * FROM {grouped} WHERE mapped IS NOT NULL AND {{touched:mapped}})"
    arguments = with_fields(in_groups, "left", _arguments(made.aggregations))
    return f"""SELECT coalesce(e.mapped, t.key) AS key, e.*, {_select_stored(node)}
FROM (SELECT mapped, {_aggregate(made.aggregations)} FROM {arguments} GROUP BY mapped) e
FULL OUTER JOIN (SELECT * FROM (SELECT *, {pack(node.key)} AS key FROM {{table:touched}}) WHERE {{touched:key}}) t
  ON e.mapped = t.key
WHERE e.mapped IS NULL OR t.key IS NULL OR {_differs(made.aggregations)}"""


@Rule("Early joins, windowed aggregate", _OF_WINDOWS, (184,), needs_table=True)
def aggregate_of_window(node: Node) -> str:
    """A window's aggregate is that of the records in it that arrived in time."""
    made = _operation(node)
    keys = [c for c in node.key if c not in ("window_start", "window_end")]
    inside = f"""SELECT a.*, w.key AS of_window
    FROM (SELECT DISTINCT key FROM {{rows}}) w JOIN {{arrived}} a ON a.key = struct({fields_of({"w.key": keys})})
     AND a.timestamp >= w.key.window_start AND a.timestamp < w.key.window_end
     AND coalesce(a.reached < w.key.window_end + ({made.windows.grace}L), true)"""
    arguments = with_fields(f"({inside})", "left", _arguments(made.aggregations))
    return f"""SELECT t.key, t.offset, e.*, {_select_stored(node)}
FROM (SELECT key, offset, {fields_of({"value": node.value})} FROM {last_of("{rows}")}) t
LEFT JOIN (SELECT of_window, {_aggregate(made.aggregations)} FROM {arguments} GROUP BY of_window) e
  ON e.of_window = t.key
WHERE e.of_window IS NULL OR {_differs(made.aggregations)}"""


@Rule("Early joins, windowed aggregate", _OF_WINDOWS, (184,), needs_table=True, excluded=_exclude_sliding)
def row_of_every_window(node: Node) -> str:
    """A record updates every open window that contains it, and no other."""
    windows = _operation(node).windows
    assert isinstance(windows, TimeWindows), node.name
    first = f"greatest(timestamp - ({windows.size - windows.advance}L), 0)"
    first = f"{first} - pmod({first}, {windows.advance}L)"
    last = f"timestamp - pmod(timestamp, {windows.advance}L)"
    return f"""SELECT coalesce(e.partition, o.partition) AS partition, coalesce(e.record, o.record) AS record,
       coalesce(e.window_start, o.window_start) AS window_start, o.window_end, o.offset
FROM (SELECT trigger.partition AS partition, trigger.offset AS record, key.window_start, key.window_end, offset
      FROM {{rows}}) o
FULL OUTER JOIN (
  SELECT partition, offset AS record, window_start
  FROM (SELECT *, explode(sequence({first}, {last}, {windows.advance}L)) AS window_start
        FROM {{arrived}} WHERE is_new AND timestamp >= 0)
  WHERE window_start + ({windows.size + windows.grace}L) > reached) e
  ON e.partition = o.partition AND e.record = o.record AND e.window_start = o.window_start
WHERE e.record IS NULL OR o.record IS NULL OR o.window_end <> o.window_start + ({windows.size}L)"""


def _select_arrived(node: Node) -> str:
    usable = """(SELECT a.*, t.stream_time FROM {left} a LEFT JOIN {times} t ON t.partition = a.partition
      WHERE a.key IS NOT NULL AND a.value IS NOT NULL)"""
    reached = f", is_new, CASE WHEN is_new THEN greatest(stream_time, {SO_FAR}) END AS reached"
    return f"SELECT * FROM {records(_operation(node).input, usable, 'left', reached)}"


def _operation(node: Node) -> WindowedAggregate:
    return cast(WindowedAggregate, node.operation)


RULES = (aggregate_of_window, row_of_every_window, aggregate_of_group)
DERIVED = {"arrived": _select_arrived}
