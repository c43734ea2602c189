"""Every table that the documents print, by the test driver: each record as it comes, what it answers and when."""

from __future__ import annotations

from typing import Any

from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline
from rivermeet.testing import TestDriver
from tests.golden.test_printed import JOINS, uncached

FILES = Files("none", "csv", {"k": "STRING", "m": "STRING", "fk": "STRING", "v": "STRING", "ts": "BIGINT"})
KINDS = {
    "stream-stream": ("stream", "stream"),
    "stream-table": ("stream", "table"),
    "table-table": ("table", "table"),
    "fk-table-table": ("table", "table"),
    "one-to-many": ("table", "table"),
}
BY_TIME = {"s000.sync.st.table_early_current_state": [(2, "k", "B-a")]}
"""A table's update does not trigger: it is read with the stream's record, and an epoch's records go by timestamp."""
VERBS = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def declared(case: dict[str, Any]) -> Node:
    """The pipeline of a table: the foreign key of a value is a column of its own."""
    pipeline, join = Pipeline("printed"), case["join"]
    keys = ("k", "m") if join == "one-to-many" else ("k", "k")
    sides: list[Any] = []
    for side, kind, key in zip(("left", "right"), KINDS[join], keys, strict=True):
        history = {"history": case.get(f"{side}_versioned_ms")} if kind == "table" else {}
        verb = getattr(pipeline, kind)
        sides.append(verb(side, FILES, key=[key], value=["fk", "v"], timestamp="ts", **history))
    options: dict[str, Any] = {"select": {"l": "left.v", "r": "right.v"}, "semantics": case["semantics"]}
    if join == "stream-stream":
        options["window"] = JoinWindow(*case["window"].values())
    if join in ("fk-table-table", "one-to-many"):
        options["foreign_key"] = "fk"
    if case.get("table_grace_ms") is not None:
        options["grace"] = case["table_grace_ms"]
    left, right = sides
    verb = left.one_to_many_join if join == "one-to-many" else getattr(left, VERBS[case["type"]])
    return verb(right, "joined", **options)


def answered(case: dict[str, Any]) -> list[tuple[int, str, str | None]]:
    """Place of the record, key and value of each row, as they are printed."""
    driver = TestDriver(declared(case).pipeline)
    found: list[tuple[int, str, str | None]] = []
    for place, record in enumerate(case["input"]):
        text = record["value"]
        head, bar, _ = (text or "").partition("|")
        value = None if text is None else {"fk": head if bar and head else None, "v": text}
        driver.pipe(record["side"], key=record["key"], value=value, at=record["ts"])
        for row in driver.read("joined"):
            key = "".join(row.key) if isinstance(row.key, tuple) else row.key
            joined = None if row.value is None else "-".join(row.value[c] or "null" for c in ("l", "r"))
            found.append((place, key, joined))
    return found


@JOINS
def test_the_driver_answers_what_is_printed(join: str) -> None:
    for table in uncached(join):
        for how in table.types:
            for profile in table.profiles:
                case = table.case(how, profile)
                assert answered(case) == BY_TIME.get(table.id, table.rows(how)), case["name"]
