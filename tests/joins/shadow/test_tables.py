"""What an application's joins of tables keep, and lose: rows written by hand.

Foreign-key joins are in ``tests/assets/shadow/test_tables.py``, on a real broker; here is what the key joins.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.joins.shadow.given import answers, differences, totals, two

LEFT = [("a", "A", 1), ("b", "B", 1), ("c", "C", 1), ("d", "D", 1), ("e", "E", 1), ("a", "A2", 9), ("c", None, 9)]
RIGHT = [("a", "a", 2), ("b", "b", 2), ("c", "c", 2), ("d", "d", 2), ("e", "e", 2), ("b", "b2", 10), ("f", "f", 11)]
THEIRS = [
    *(("a", ("A", "a"), 2), ("b", ("B", "b"), 2), ("c", ("C", "c"), 2), ("e", ("E", "e"), 2), ("f", None, 11)),
    # D's tombstone is the last of it: the row before does not count.
    *(("d", ("D", "d"), 2), ("d", None, 3)),
]


def test_an_outer_join(spark: SparkSession) -> None:
    left, right = two("table", "table")
    select = {"l": "left.v", "r": "right.v"}
    node = left.outer_join(right, "both", select=select, semantics="kafka-4")
    # The application has read right up to its fifth record: b's new one and f are not compared.
    given = answers(spark, node, LEFT, RIGHT, THEIRS, "l STRING, r STRING", read={"right": {0: 4}})
    assert differences(node, given) == {
        ("a", '{"l":"A2","r":"a"}'): ("stale", "stale_left"),
        ("b", '{"l":"B","r":"b2"}'): ("stale", "unread"),
        ("c", '{"l":null,"r":"c"}'): ("stale", "stale_left"),
        ("d", '{"l":"D","r":"d"}'): ("missing", "lost_row"),
        ("f", '{"l":null,"r":"f"}'): ("missing", "unread"),
    }
    # E came without its row before the partner, which an outer join has.
    assert totals(node, given) == (6, 1, 1)
