"""What of a table becomes records: its rows as they stand, then each change, in the order of the commits."""

from __future__ import annotations

from typing import Any

import pytest

from rivermeet.infra.postgres.connection import Database
from rivermeet.pipelines import Pipeline, Stream, Table
from tests.infra.sources.postgres.base import Base

pytestmark = pytest.mark.slow
ORDERS = "SELECT id, n, note FROM orders"


def orders(base: Base, **options: Any) -> Table:
    base.do("CREATE TABLE orders (id int PRIMARY KEY, n int, note text, more text)")
    reads = base.table("orders", {"id": "INT", "n": "INT", "note": "STRING"})
    return Pipeline("shop").table("orders", reads, **options)


def test_a_snapshot_then_changes(base: Base) -> None:
    node = orders(base)
    base.do("INSERT INTO orders VALUES (1, 10, 'a'), (2, 20, NULL), (3, NULL, '')")
    first = base.run(node)
    assert first is not None and first.rows == 3
    base.same(node, ORDERS)
    assert base.run(node) is None, "nothing new"
    base.do("UPDATE orders SET n = 11 WHERE id = 1", "DELETE FROM orders WHERE id = 2", "INSERT INTO orders VALUES (4)")
    second = base.run(node)
    assert second is not None and (second.rows, second.tombstones) == (3, 1)
    assert second.plan.wal is not None and first.plan.wal is not None
    assert base.step(node).position(second.note) == second.plan.wal
    base.same(node, ORDERS)
    base.do("CREATE TABLE other (id int)", "INSERT INTO other VALUES (1)")
    assert base.run(node) is None, "a change of another table is none"
    base.do("UPDATE orders SET note = 'x'", "UPDATE orders SET note = 'y' WHERE id = 4")
    third = base.run(node)
    assert third is not None and third.rows == 4
    assert third.plan.wal is not None and third.plan.wal.start == second.plan.wal.end
    base.same(node, ORDERS)


def test_an_update_of_the_key(base: Base) -> None:
    """What is one update there is a row that went and one that came."""
    node = orders(base, partitions=1)
    base.do("INSERT INTO orders VALUES (1, 10, 'a'), (2, 20, 'b')")
    base.run(node)
    base.do("UPDATE orders SET id = 3, n = 30 WHERE id = 1", "UPDATE orders SET id = id + 10")
    base.run(node)
    assert base.records(node)[2:4] == [((1,), None), ((3,), (30, "a"))]
    assert sorted(base.records(node)[4:], key=repr) == sorted(
        [((2,), None), ((12,), (20, "b")), ((3,), None), ((13,), (30, "a"))], key=repr
    )
    base.same(node, ORDERS)


def test_transactions(base: Base) -> None:
    """One that is rolled back never was; one that is open is read when it commits, as a whole."""
    node = orders(base, partitions=1)
    base.run(node)
    with base.connect() as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO orders VALUES (1, 1), (2, 1)")
        base.do("INSERT INTO orders VALUES (3, 2)")
        first = base.run(node)
        assert first is not None and base.records(node) == [((3,), (2, None))]
        other.execute("UPDATE orders SET n = 3 WHERE id = 2")
        base.do("UPDATE orders SET n = 4 WHERE id = 3")
        other.execute("COMMIT")
        other.execute("BEGIN")
        other.execute("DELETE FROM orders")
        other.execute("ROLLBACK")
    base.run(node)
    assert base.records(node)[1:] == [((3,), (4, None)), ((1,), (1, None)), ((2,), (1, None)), ((2,), (3, None))]
    base.same(node, ORDERS)


def test_truncate(base: Base) -> None:
    """All rows end: those of our table, and those that came in the epoch before."""
    node = orders(base, partitions=1)
    base.do("INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3)")
    base.run(node)
    base.do("DELETE FROM orders WHERE id = 2")
    base.run(node)
    base.transaction(
        "INSERT INTO orders VALUES (4, 4)",
        "DELETE FROM orders WHERE id = 1",
        "TRUNCATE orders",
        "INSERT INTO orders VALUES (5, 5)",
    )
    base.do("TRUNCATE orders", "INSERT INTO orders VALUES (1, 6)")
    result = base.run(node)
    assert result is not None
    assert base.records(node)[4:] == [
        ((4,), (4, None)),
        ((1,), None),
        ((3,), None),
        ((4,), None),
        ((5,), (5, None)),
        ((5,), None),
        ((1,), (6, None)),
    ]
    base.same(node, ORDERS)


def test_a_stream_of_changes(base: Base) -> None:
    base.do("CREATE TABLE moves (id int PRIMARY KEY, who text)", "INSERT INTO moves VALUES (1, 'a')")
    made = Pipeline("shop")
    node: Stream = made.stream(
        "moves",
        base.table("moves", {"id": "INT", "who": "STRING"}),
        value={"who": "who", "op": "pg_op"},
        where="pg_op <> 'r'",
        partitions=1,
    )
    base.run(node)
    base.do("INSERT INTO moves VALUES (2, 'b')", "UPDATE moves SET who = 'c'", "DELETE FROM moves WHERE id = 1")
    base.run(node)
    assert base.records(node) == [
        ((2,), ("b", "i")),
        ((1,), ("c", "u")),
        ((2,), ("c", "u")),
        ((1,), None),
    ]


def test_what_leaves_the_filter_leaves_the_table(base: Base) -> None:
    node = orders(base, where="n > 1")
    base.do("INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3)")
    base.run(node)
    base.do("UPDATE orders SET n = 1 WHERE id = 2", "UPDATE orders SET n = 5 WHERE id = 1")
    base.run(node)
    base.same(node, f"{ORDERS} WHERE n > 1")


def test_the_tables_of_a_pipeline_are_at_one_position(base: Base) -> None:
    """Also where one is run more often: it waits for the other."""
    base.do("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    made = Pipeline("shop")
    a = made.table("a", base.table("a", {"id": "INT"}), value={"n": "id"})
    b = made.table("b", base.table("b", {"id": "INT"}), value={"n": "id"})
    base.run_all([a, b])
    positions = base.step(a).positions()
    assert positions["a"] == positions["b"], "one snapshot"
    base.transaction("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    assert base.run(a) is not None
    base.transaction("INSERT INTO a VALUES (2)", "INSERT INTO b VALUES (2)")
    assert base.run(a) is None, "it waits"
    assert base.run(b) is not None
    assert base.folded(a) == base.folded(b) == [(1, 1)]
    base.run_all([b, a])
    assert base.folded(a) == base.folded(b) == [(1, 1), (2, 2)]
    base.do("INSERT INTO a VALUES (3)")
    base.run_all([a, b])
    positions = base.step(b).positions()
    assert positions["a"] == positions["b"], "an epoch without a row, too"


def test_the_database_shows_nothing_of_its_password() -> None:
    assert "s3cret" not in repr(Database("host=h password=s3cret", "shop"))
