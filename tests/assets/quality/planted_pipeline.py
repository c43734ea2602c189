"""A pipeline with a node of every kind, rules of its own, and two deliveries; the first breaks none.

All sources have one shape and one partition. With the second delivery, streams go from 25 to 62:

    clicks    a@10 b@20    d@40 e@50 f@51 t@52 (no value) g@53 g@54 y@60 x@61 a@12 (late)
    views     a@11 z@25    d@41 q@42 y@62

so that `seen`, whose left records are open for 4 ms, has d-d, then e, f and both g alone, and y-y; x stays open. What
is wrong without any bug is that f has 13, and that a comes late. A node that is to be refused has nothing below it.
"""

from __future__ import annotations

from pathlib import Path

from rivermeet.pipelines import Files, JoinWindow, Pipeline, TimeWindows, count, expr, total
from tests.builders import json_file

Row = tuple[str, str, int | None, int]
"""id, who, n (None is a tombstone), at."""

PIPELINE = Pipeline("planted")
_SHAPE = {"id": "STRING", "who": "STRING", "n": "INT", "at": "BIGINT"}
_HOW = {"key": ["id"], "value": ["who", "n"], "timestamp": "at", "tombstone": "n IS NULL"}


def _files(name: str) -> Files:
    return Files(f"{name}/*.jsonl", "json", _SHAPE)


clicks, views, noise = (PIPELINE.stream(n, _files(n), partitions=1, **_HOW) for n in ("clicks", "views", "noise"))
names = PIPELINE.global_table("names", _files("names"), **_HOW)
orders, owners, stock, shelf = (
    PIPELINE.table(n, _files(n), partitions=1, **_HOW) for n in ("orders", "owners", "stock", "shelf")
)
prices = PIPELINE.table("prices", _files("prices"), partitions=1, history="1h", **_HOW)

_BOTH = {"a": "left.n", "b": "right.n"}
_WINDOW = JoinWindow(2, 3, grace=1)
seen = clicks.left_join(views, "seen", window=_WINDOW, select=_BOTH)
seen_refused = clicks.left_join(views, "seen_refused", window=_WINDOW, select=_BOTH)
named_refused = clicks.left_join(names, "named_refused", key="who", select=_BOTH)
looked = clicks.left_join(owners, "looked", select=_BOTH)
priced = clicks.left_join(prices, "priced", select=_BOTH)
both = orders.left_join(owners, "both", select=_BOTH)
both_refused = orders.left_join(owners, "both_refused", select=_BOTH)
owned_refused = orders.left_join(owners, "owned_refused", foreign_key="who", select=_BOTH)
counted = clicks.group_by_key().windowed_by(TimeWindows(10, grace="1s")).aggregate({"c": count()}, "counted")
grouped = orders.group_by({"who": expr("who", "STRING")}).aggregate({"c": count(), "s": total("n")}, "grouped")
kept = clicks.filter("n > 0", "kept")
kept_refused = clicks.filter("n > 0", "kept_refused")

_UNLUCKY = "SELECT key, value.n FROM {rows} WHERE value.n = 13"
_FAILS = "SELECT * FROM {rows} WHERE 1 / (value.n - 13) > 1"
PIPELINE.check(kept, "own_critical", "No n is 13.", _UNLUCKY, severity="critical")
PIPELINE.check(kept, "own_info", "Really no n is 13.", _UNLUCKY, severity="info")
PIPELINE.check(kept, "own_committed", "Nobody writes 13.", "SELECT * FROM {changelog} WHERE value.n = 13")
PIPELINE.check(kept, "own_lost", "One divided by what n lacks to 13 is small.", _FAILS)
PIPELINE.check(kept, "own_kept", "No n is 14.", "SELECT * FROM {rows} WHERE value.n = 14", severity="critical")
PIPELINE.check(kept_refused, "own_blocking", "No n is ever 13.", _UNLUCKY, severity="critical", blocking=True)
PIPELINE.check(kept_refused, "own_lost", "One divided by what n lacks to 13 is small.", _FAILS, blocking=True)
PIPELINE.check(grouped, "own_table", "No group has more than fifty.", "SELECT * FROM {table} WHERE c > 50")

_DELIVERIES: dict[str, tuple[list[Row], list[Row]]] = {
    "clicks": (
        [("a", "p", 1, 10), ("b", "q", 1, 20)],
        [
            *(("d", "p", 2, 40), ("e", "q", 2, 50), ("f", "p", 13, 51), ("t", "p", None, 52), ("g", "p", 2, 53)),
            *(("g", "q", 3, 54), ("y", "q", 2, 60), ("x", "p", 2, 61), ("a", "q", 2, 12)),
        ],
    ),
    "views": (
        [("a", "p", 1, 11), ("z", "p", 1, 25)],
        [("d", "p", 5, 41), ("q", "p", 5, 42), ("y", "p", 5, 62)],
    ),
    "names": ([("p", "", 1, 1), ("q", "", 1, 2)], [("p", "", 2, 45), ("r", "", 2, 46)]),
    "orders": (
        [("k1", "u1", 1, 1), ("k2", "u2", 1, 2), ("k3", "u2", 1, 3)],
        [("k1", "u1", 2, 70), ("k5", "u2", 2, 71)],
    ),
    "owners": (
        [("u1", "", 1, 1), ("u2", "", 1, 2), ("k1", "", 1, 3), ("d", "", 1, 4)],
        [("u1", "", 2, 72), ("d", "", 2, 73)],
    ),
    "prices": ([("d", "", 1, 30), ("e", "", 1, 31)], [("d", "", 2, 39)]),
    "noise": ([("n1", "", 1, 1)], [("n2", "", 2, 2), ("n3", "", 2, 3), ("n4", "", 2, 4)]),
    "stock": ([("s1", "", 1, 1), ("s2", "", 1, 2)], [("s1", "", 2, 3), ("s3", "", 2, 4)]),
    "shelf": ([("t1", "", 1, 1), ("t2", "", 1, 2), ("t3", "", 1, 3)], [("t1", "", 2, 4)]),
}


def deliver(data: Path, number: int) -> None:
    """Put a delivery, 1 or 2, in every source's folder."""
    for name, rows in _DELIVERIES.items():
        json_file(data / name / f"{number}.jsonl", *(dict(zip(_SHAPE, row, strict=True)) for row in rows[number - 1]))
