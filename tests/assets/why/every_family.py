"""A pipeline with a node of every family over files of JSON lines, and three deliveries of random records.

Every join keeps the number of each side's record, ``a`` of the left and ``b`` of the right one: numbers are counted
over all deliveries, so that a row names the records that it was made of.
"""

from __future__ import annotations

import random
from itertools import count as counter
from pathlib import Path
from typing import Any

from rivermeet.pipelines import Files, JoinWindow, Pipeline, TimeWindows, count, expr
from tests.builders import json_file

PIPELINE = Pipeline("families")
DELIVERIES = 3
_SHAPE = {"id": "STRING", "who": "STRING", "n": "INT", "at": "BIGINT", "gone": "BOOLEAN"}
_HOW: Any = {"key": ["id"], "value": ["who", "n"], "timestamp": "at", "tombstone": "gone"}
_BUYERS: Any = {**_HOW, "key": {"buyer": "id"}}
_SIDES = {"a": "left.n", "b": "right.n"}


def _files(name: str) -> Files:
    return Files(f"{name}/*.jsonl", "json", _SHAPE)


clicks, views = (PIPELINE.stream(n, _files(n), partitions=2, **_HOW) for n in ("clicks", "views"))
orders, owners = (PIPELINE.table(n, _files(n), partitions=2, **_HOW) for n in ("orders", "owners"))
prices = PIPELINE.table("prices", _files("prices"), partitions=2, history="1h", **_HOW)
names, cities = (PIPELINE.global_table(n, _files(n), **_HOW) for n in ("names", "cities"))
buyers = PIPELINE.table("buyers", _files("buyers"), partitions=2, **_BUYERS)

_WINDOW = JoinWindow(20, 30, grace=10)
seen = clicks.outer_join(views, "seen", window=_WINDOW, select=_SIDES)
met = clicks.join(views, "met", window=_WINDOW, select=_SIDES)
eager = clicks.left_join(views, "eager", window=_WINDOW, select=_SIDES, semantics="0.10.2")
kafka = clicks.left_join(views, "kafka", window=_WINDOW, select=_SIDES, semantics="kafka-4")
oldest = clicks.left_join(views, "oldest", window=JoinWindow(20, 30), select=_SIDES, semantics="0.10.0")
itself = clicks.join(clicks, "itself", window=_WINDOW, select=_SIDES)
looked = clicks.left_join(owners, "looked", select=_SIDES)
found = clicks.join(owners, "found", select=_SIDES)
priced = clicks.left_join(prices, "priced", select=_SIDES)
named = clicks.left_join(names, "named", key="who", select=_SIDES)
named_in_time = clicks.left_join(names, "named_in_time", key="who", select=_SIDES, bootstrap="timestamp")
view = names.left_join(cities, "view", key="who", select={"n": "left.n", "city": "right.n"})
viewed = clicks.left_join(view, "viewed", key="who", select=_SIDES)
both = orders.outer_join(owners, "both", select=_SIDES)
both_inner = orders.join(owners, "both_inner", select=_SIDES, cache="epoch")
owned = orders.left_join(owners, "owned", foreign_key="who", select=_SIDES)
owned_inner = orders.join(owners, "owned_inner", foreign_key="who", select=_SIDES)
owned_cached = orders.join(owners, "owned_cached", foreign_key="who", select=_SIDES, cache="epoch")
owned_kafka = orders.left_join(
    owners, "owned_kafka", foreign_key="who", select=_SIDES, semantics="kafka-4", cache="epoch"
)
many = owners.one_to_many_join(buyers, "many", foreign_key="who", select=_SIDES)
merged = clicks.merge(views, "merged")
kept = clicks.filter("n % 2 = 0", "kept")
kept_orders = orders.filter("n % 2 = 0", "kept_orders")
doubled = orders.map_values({"n": "n", "twice": "n * 2"}, "doubled")
moved = clicks.select_key({"place": expr("who", "STRING")}, "moved", partitions=2)
latest = clicks.to_table("latest")
changes = orders.to_stream("changes")
counted = clicks.group_by_key().windowed_by(TimeWindows(50, grace=100)).aggregate({"c": count()}, "counted")
grouped = orders.group_by({"place": expr("who", "STRING")}).aggregate({"c": count()}, "grouped")
chained = owned.left_join(owners, "chained", foreign_key="id", select={"a": "left.a", "b": "right.n"})

SOURCES = ("clicks", "views", "orders", "owners", "prices", "names", "cities", "buyers")
_KEYS = ("u1", "u2", "u3", "u4", "u5", "u6")


def deliver(data: Path, delivery: int) -> None:
    """Write one delivery, a file for each source; number 1 of n lies in the first one."""
    chance = random.Random(delivery)
    numbers = counter(delivery * 10_000)
    for name in SOURCES:
        lines = []
        for _ in range(25):
            at = delivery * 200 + chance.randrange(0, 230)
            line = {"id": chance.choice(_KEYS), "who": chance.choice((*_KEYS, "nobody", None)), "n": next(numbers)}
            lines.append({**line, "at": at, "gone": chance.random() < 0.15})
        json_file(data / name / f"{delivery}.jsonl", *lines)
