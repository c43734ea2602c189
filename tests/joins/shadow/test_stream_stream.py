"""What an application's windowed join lacks, and has too much, by cause: rows written by hand.

window 10/10, no grace; R = 20: a topic at T has forgotten what lies at T - 20

left   k A@0, m M@2, x B@40, y Y@60, z Z@61, p P@95, t T@50       right   k a@5, x b@41, t t@51, p p@96, x c@100
ours   k A-a@5, m M-null@2, x B-b@41, y Y-null@60, z Z-null@61, p P-p@96, t T-t@51
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from rivermeet.pipelines import JoinWindow
from tests.joins.shadow.given import answers, differences, totals, two

LEFT = [("k", "A", 0), ("m", "M", 2), ("x", "B", 40), ("y", "Y", 60), ("z", "Z", 61), ("p", "P", 95), ("t", "T", 50)]
RIGHT = [("k", "a", 5), ("x", "b", 41), ("t", "t", 51), ("p", "p", 96), ("x", "c", 100)]
OURS = [
    ("k", ("A", "a"), 5),
    ("m", ("M", None), 2),
    ("x", ("B", "b"), 41),
    ("y", ("Y", None), 60),
    ("z", ("Z", None), 61),
    ("p", ("P", "p"), 96),
    ("t", ("T", "t"), 51),
]
THEIRS = [
    # Left was read far ahead of right: its store has forgotten A when a comes, and A was given up.
    ("k", ("A", None), 0),
    # B is there twice, and was given up before.
    ("x", ("B", None), 40),
    ("x", ("B", "b"), 41),
    ("x", ("B", "b"), 41),
    # M is older than Y, which was released: it would have been, too. Z may still wait.
    ("y", ("Y", None), 60),
    # T comes when its own topic is at 95: whether t is found depends on the order.
    ("t", ("T", None), 50),
    ("w", ("W", "w"), 7),
]
FOUND = {
    ("k", ("A", "a")): ("missing", "ran_ahead"),
    ("k", ("A", None)): ("extra", "false_one_sided"),
    ("m", ("M", None)): ("missing", "lost_row"),
    ("x", ("B", None)): ("extra", "false_one_sided"),
    ("x", ("B", "b")): ("extra", "repeated"),
    ("z", ("Z", None)): ("missing", "still_waiting"),
    ("p", ("P", "p")): ("missing", "lost_row"),
    ("t", ("T", "t")): ("missing", "late_record"),
    ("t", ("T", None)): ("extra", "late_record"),
    ("w", ("W", "w")): ("extra", "unknown_value"),
}


def joined(how: str = "left") -> Any:
    left, right = two("stream", "stream")
    given: Any = {"window": JoinWindow("10ms", "10ms"), "select": {"l": "left.v", "r": "right.v"}}
    return getattr(left, "join" if how == "inner" else f"{how}_join")(right, "both", semantics="kafka-4", **given)


def compared(spark: SparkSession, node: Any, left: Any, right: Any, theirs: Any) -> Any:
    return answers(spark, node, left, right, theirs, "l STRING, r STRING")


def text(left: str | None, right: str | None) -> str:
    named = {"l": left, "r": right}
    return "{" + ",".join(f'"{c}":' + ("null" if v is None else f'"{v}"') for c, v in named.items()) + "}"


def test_planted(spark: SparkSession) -> None:
    node = joined()
    found = differences(node, compared(spark, node, LEFT, RIGHT, THEIRS))
    assert found == {(key, text(*value)): what for (key, value), what in FOUND.items()}


def test_rows_in_another_order_are_no_difference(spark: SparkSession) -> None:
    node, left = joined(), [*LEFT, ("p", "Q", 96)]
    given = compared(spark, node, left, RIGHT, [("p", ("Q", "p"), 96), *OURS])
    assert (differences(node, given), totals(node, given)) == ({}, (8, 8, 1))
