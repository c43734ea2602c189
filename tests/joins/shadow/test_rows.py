"""What is no join of two inputs is compared by its rows: a filtered stream, and a table of counts."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from rivermeet.joins.shadow.answers import Answers
from rivermeet.joins.shadow.compare import compare, compare_stream, compare_table
from tests.joins.shadow.given import frame, kept, two

OURS = [("a", "1", 1), ("b", "1", 2), ("a", "2", 3), ("c", "1", 4), ("d", "1", 5)]
THEIRS = [("a", "1", 1), ("b", "1", 2), ("b", "1", 2), ("c", "9", 4)]


def both(spark: SparkSession) -> Answers:
    from rivermeet.joins.provenance import trigger_of

    ours = frame(spark, OURS).select("*", trigger_of("left"))
    return Answers(kept(ours), kept(frame(spark, THEIRS)), read={"left": {0: 3}}, keep=kept)


def test_a_table_and_a_stream(spark: SparkSession) -> None:
    table = compare_table(both(spark)).differences.select("key.k", "kind", "cause").collect()
    assert sorted(map(tuple, table)) == [
        ("a", "stale", "stale_row"),
        ("c", "other", "unknown_value"),
        ("d", "missing", "unread"),
    ]
    stream = compare_stream(both(spark)).differences.select("key.k", "value.v", "kind", "cause").collect()
    assert sorted(map(tuple, stream)) == [
        ("a", "2", "missing", "lost_row"),
        ("b", "1", "extra", "repeated"),
        ("c", "1", "missing", "lost_row"),
        ("c", "9", "extra", "unknown_value"),
        ("d", "1", "missing", "unread"),
    ]


def test_an_application_that_is_ahead_may_have_read_what_explains_its_rows(spark: SparkSession) -> None:
    given = replace(both(spark), is_ahead=True)
    stream, table = two("stream", "table")
    rows = compare(table.filter("v > ''", "some"), given).differences.select("key.k", "kind", "cause").collect()
    assert sorted(map(tuple, rows)) == [
        ("a", "stale", "not_read_here"),
        ("c", "other", "not_read_here"),
        ("d", "missing", "unread"),
    ]
    rows = compare(stream.filter("v > ''", "few"), given).differences.select("key.k", "value.v", "cause").collect()
    assert sorted(map(tuple, rows)) == [
        # No record takes back a row of a stream.
        ("a", "2", "lost_row"),
        ("b", "1", "not_read_here"),
        ("c", "1", "lost_row"),
        ("c", "9", "not_read_here"),
        ("d", "1", "unread"),
    ]
