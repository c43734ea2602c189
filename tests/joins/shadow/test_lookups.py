"""Which version of a table an application's look-ups have seen: rows written by hand."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tests.joins.shadow.given import answers, differences, two

LEFT = [("a", "A", 5), ("b", "B", 6), ("c", "C", 7), ("d", "D", 8), ("e", "E", 9), ("f", "F", 10), ("g", "G", 30)]
RIGHT = [
    *(("a", "a1", 1), ("b", "b1", 1), ("c", "c1", 2), ("d", "d1", 3), ("e", "e1", 4), ("f", "f1", 4)),
    ("a", "a2", 4),
    # On a tie ours takes the stream first; Kafka may take the deletion.
    ("f", None, 10),
    ("g", "g1", 50),
]
THEIRS = [
    ("a", ("A", "a1"), 5),
    ("b", ("B", None), 6),
    ("c", ("C", "zz"), 7),
    ("d", ("D", "d1"), 8),
    ("d", ("D", "d1"), 8),
    ("f", ("F", None), 10),
    ("g", ("G", "g1"), 30),
]
BOTH = {
    ("a", '{"l":"A","r":"a2"}'): ("other", "other_version"),
    ("c", '{"l":"C","r":"zz"}'): ("extra", "unknown_value"),
    ("d", '{"l":"D","r":"d1"}'): ("extra", "repeated"),
}
LEFT_JOIN = BOTH | {
    ("b", '{"l":"B","r":"b1"}'): ("other", "false_one_sided"),
    ("c", '{"l":"C","r":"c1"}'): ("missing", "lost_row"),
    ("e", '{"l":"E","r":"e1"}'): ("missing", "lost_row"),
    ("f", '{"l":"F","r":"f1"}'): ("other", "tie"),
    ("g", '{"l":"G","r":null}'): ("other", "other_version"),
}
INNER_JOIN = BOTH | {
    ("b", '{"l":"B","r":"b1"}'): ("missing", "looked_up_too_early"),
    ("c", '{"l":"C","r":"c1"}'): ("missing", "looked_up_too_early"),
    ("e", '{"l":"E","r":"e1"}'): ("missing", "looked_up_too_early"),
    ("f", '{"l":"F","r":"f1"}'): ("missing", "tie"),
    ("g", '{"l":"G","r":"g1"}'): ("extra", "other_version"),
}


def found(spark: SparkSession, how: str, theirs: Any) -> Any:
    left, right = two("stream", "table")
    select = {"l": "left.v", "r": "right.v"}
    node = getattr(left, how)(right, "both", select=select, semantics="kafka-4")
    return differences(node, answers(spark, node, LEFT, RIGHT, theirs, "l STRING, r STRING"))


def test_a_left_join(spark: SparkSession) -> None:
    assert found(spark, "left_join", THEIRS) == LEFT_JOIN


def test_an_inner_join(spark: SparkSession) -> None:
    assert found(spark, "join", [row for row in THEIRS if row[1][1] is not None]) == INNER_JOIN
