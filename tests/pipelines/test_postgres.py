"""Tables of PostgreSQL as they are declared: what they must have, and what a change log gives by itself."""

from __future__ import annotations

from typing import Any

import pytest

from rivermeet.pipelines import DeclarationError, Pipeline, Postgres, expr

ORDERS = Postgres("shop.public.orders", {"id": "INT", "n": "INT", "at": "TIMESTAMP"}, "id")


@pytest.mark.parametrize(
    ("table", "schema", "key", "message"),
    [
        ("orders", {"id": "INT"}, "id", "write DATABASE.SCHEMA.TABLE"),
        ("shop..orders", {"id": "INT"}, "id", "write DATABASE.SCHEMA.TABLE"),
        ("a.b.c", {}, "id", "the schema of table 'a.b.c' is empty"),
        ("a.b.c", {"id": "INT"}, (), "give names of columns"),
        ("a.b.c", {"id": "INT"}, ("id", "no"), "give names of columns that its schema has \\('id'\\)"),
        ("a.b.c", {"id": "INT", "pg_op": "INT"}, "id", "has a column 'pg_op' that each record has"),
    ],
)
def test_what_a_table_must_have(table: str, schema: dict[str, str], key: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Postgres(table, schema, key)


def test_a_table_by_default() -> None:
    node = Pipeline("shop").table("orders", ORDERS)
    assert (dict(node.key), node.value, node.partitions) == ({"id": "INT"}, ("n", "at"), 4)
    assert node.source is not None
    assert (node.source.timestamp, node.source.tombstone) == ("pg_commit_timestamp", "pg_tombstone")
    assert (node.source.postgres.database, node.source.postgres.place) == ("shop", ("public", "orders"))
    with pytest.raises(TypeError, match=r"a source of table 'shop\.public\.orders' reads no topic"):
        _ = node.source.topic


@pytest.mark.parametrize(
    ("kind", "where", "tombstone"),
    [
        ("table", None, "pg_tombstone OR NOT coalesce((n > 1), false)"),
        ("stream", "coalesce((n > 1), pg_tombstone)", "pg_tombstone"),
    ],
)
def test_a_row_that_leaves_the_filter(kind: str, where: str | None, tombstone: str) -> None:
    source = getattr(Pipeline("shop"), kind)("orders", ORDERS, where="n > 1").source
    assert (source.where, source.tombstone) == (where, tombstone)


def test_a_deleted_row_has_the_time_of_its_commit() -> None:
    source = Pipeline("shop").stream("orders", ORDERS, timestamp="at").source
    assert source is not None
    assert source.timestamp == "CASE WHEN pg_tombstone THEN timestamp_millis(pg_commit_timestamp) ELSE `at` END"


def test_the_key_of_a_table_is_what_identifies_a_row() -> None:
    made = Pipeline("shop")
    with pytest.raises(
        DeclarationError, match=r"key 'n' is not what identifies a row of 'shop.public.orders' \('id'\)"
    ):
        made.table("orders", ORDERS, key=["n"])
    assert dict(made.table("orders", ORDERS, key={"order": "id"}).key) == {"order": "INT"}
    assert dict(made.stream("changes", ORDERS, key=["n"]).key) == {"n": "INT"}
    assert dict(made.stream("more", ORDERS, key={"half": expr("n / 2", "INT")}).key) == {"half": "INT"}
    with pytest.raises(DeclarationError, match="duplicate_files is of files"):
        made.stream("files", ORDERS, duplicate_files="read")
