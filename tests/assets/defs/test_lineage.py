"""Every column of a result says what it is made of, for each family of joins and each operation."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from rivermeet.assets.definitions import defs
from rivermeet.assets.defs.lineage import column_lineage
from rivermeet.joins.operator import OPERATORS
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline, TimeWindows, count, expr, load_all, total

_FILES = Files("none/*.csv", "csv", {"id": "STRING", "n": "STRING", "odd name": "DOUBLE", "at": "BIGINT"})
_OPTIONS: dict[str, Any] = {"key": ["id"], "value": ["n", "odd name"], "timestamp": "at"}
_LINES = Files("none/*.csv", "csv", {"line": "STRING", "order": "STRING", "at": "BIGINT"})
SHOP = Pipeline("shop")
clicks = SHOP.stream("clicks", _FILES, **_OPTIONS)
views = SHOP.stream("views", _FILES, **_OPTIONS)
orders = SHOP.table("orders", _FILES, **_OPTIONS)
owners = SHOP.table("owners", _FILES, **_OPTIONS)
lines = SHOP.table("lines", _LINES, key=["line"], timestamp="at")
people = SHOP.global_table("people", _FILES, **_OPTIONS)
towns = SHOP.global_table("towns", _FILES, **_OPTIONS)
_BOTH = {"a": "left.n", "b": "concat(right.`odd name`, 'left.n', left.n)"}

seen = clicks.outer_join(views, "seen", window=JoinWindow(0, "1d"), select=_BOTH)
shown = clicks.left_join(owners, "shown", select=_BOTH)
named = clicks.left_join(people, "named", key="n", select=_BOTH)
both = orders.left_join(owners, "both", select=_BOTH)
owned = orders.left_join(owners, "owned", foreign_key="n", select={"who": "right.n", "mine": "left.id"})
sent = orders.one_to_many_join(lines, "sent", foreign_key="order", select={"n": "left.n", "order": "right.order"})
placed = people.left_join(towns, "placed", key="n", select={"town": "right.n", "sure": "left.id IS NOT NULL"})
settled = clicks.left_join(placed, "settled", key="n", select={"town": "right.town", "sure": "right.sure"})
daily = (
    clicks.group_by_key().windowed_by(TimeWindows("1d")).aggregate({"sum": total("`odd name`"), "n": count()}, "daily")
)
weekly = daily.left_join(daily, "weekly", window_map="-7d", select={"now": "left.sum", "then": "right.sum"})
by_name = orders.group_by({"name": expr("upper(n)", "STRING")}).aggregate({"sum": total("`odd name` * 2")}, "by_name")
kept = clicks.filter("n <> 'id'", "kept")
shaped = orders.map_values({"long": "concat(n, 'odd name', id)"}, "shaped")
rekeyed = clicks.select_key({"name": expr("n", "STRING")}, "rekeyed")
merged = clicks.merge(views, "merged")
latest = clicks.to_table("latest")
changes = orders.to_stream("changes")
quoting = orders.left_join(owners, "quoting", select={"a": """concat("left.n", 'right.n', left.id) /* right.n */"""})
computed = orders.left_join(owners, "computed", select={"a": lambda left, right: left.n})

_SAME = {"key.id": {"clicks.key.id"}, "value.n": {"clicks.value.n"}, "value.odd name": {"clicks.value.odd name"}}
_WINDOW: dict[str, set[str]] = {"window_start": set(), "window_end": set()}
# What each column is made of; a table's column is TABLE.column, a stream's STREAM.value.column.
MADE_OF: dict[Node, dict[str, set[str]]] = {
    seen: {
        "key.id": {"clicks.key.id", "views.key.id"},
        "value.a": {"clicks.value.n"},
        "value.b": {"views.value.odd name", "clicks.value.n"},
    },
    shown: {
        "key.id": {"clicks.key.id"},
        "value.a": {"clicks.value.n"},
        "value.b": {"owners.odd name", "clicks.value.n"},
    },
    named: {
        "key.id": {"clicks.key.id"},
        "value.a": {"clicks.value.n"},
        "value.b": {"people.odd name", "clicks.value.n"},
    },
    both: {"id": {"orders.id"}, "a": {"orders.n"}, "b": {"owners.odd name", "orders.n"}},
    owned: {"id": {"orders.id"}, "who": {"owners.n"}, "mine": {"orders.id"}},
    sent: {"id": {"orders.id"}, "line": {"lines.line"}, "n": {"orders.n"}, "order": {"lines.order"}},
    settled: {"key.id": {"clicks.key.id"}, "value.town": {"towns.n"}, "value.sure": {"people.id"}},
    daily: {"id": {"clicks.key.id"}, "sum": {"clicks.value.odd name"}, "n": set()} | _WINDOW,
    weekly: {
        "id": {"daily.id"},
        "now": {"daily.sum"},
        "then": {"daily.sum"},
        "window_start": {"daily.window_start"},
        "window_end": {"daily.window_end"},
    },
    by_name: {"name": {"orders.n"}, "sum": {"orders.odd name"}},
    kept: _SAME,
    shaped: {"id": {"orders.id"}, "long": {"orders.n", "orders.id"}},
    rekeyed: {"key.name": {"clicks.value.n"}} | {c: of for c, of in _SAME.items() if c != "key.id"},
    merged: {column: of | {one.replace("clicks", "views") for one in of} for column, of in _SAME.items()},
    latest: {column.partition(".")[2]: of for column, of in _SAME.items()},
    changes: {"key.id": {"orders.id"}, "value.n": {"orders.n"}, "value.odd name": {"orders.odd name"}},
    quoting: {"id": {"orders.id"}, "a": {"orders.id"}},
    computed: {"id": {"orders.id"}, "a": set()},
}


def _found(node: Node) -> dict[str, set[str]]:
    lineage = column_lineage(node)
    assert lineage is not None
    return {
        column: {f"{dep.asset_key.path[-1].rsplit('_', 1)[0]}.{dep.column_name}" for dep in deps}
        for column, deps in lineage.deps_by_column.items()
    }


@pytest.mark.parametrize("node", MADE_OF, ids=lambda node: node.name)
def test_columns_say_what_they_are_made_of(node: Node) -> None:
    assert _found(node) == MADE_OF[node]


def test_every_family_is_here() -> None:
    families = {type(node.operation) for node in (*MADE_OF, placed)}
    assert families >= set(OPERATORS)


def test_sources_are_made_of_files() -> None:
    assert column_lineage(orders) is None


def test_lineage_names_assets_that_exist() -> None:
    graph = dg.Definitions.merge(defs()).get_repository_def().asset_graph
    mentioned = {
        dep.asset_key
        for p in load_all()
        for n in p.stored
        if (lineage := column_lineage(n))
        for deps in lineage.deps_by_column.values()
        for dep in deps
    }
    assert mentioned and mentioned <= graph.get_all_asset_keys()
