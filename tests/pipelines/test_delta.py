"""Declarations of Delta tables as sources."""

from __future__ import annotations

from typing import Any

import pytest

from rivermeet.pipelines import DeclarationError, DeltaTable, Pipeline

SCHEMA = {"id": "STRING", "n": "INT"}


def test_what_a_table_gives() -> None:
    source = Pipeline("shop").table("orders", DeltaTable("orders", schema=SCHEMA), key=["id"]).source
    assert source is not None
    assert (list(source.key), list(source.value), source.timestamp) == (["id"], ["n"], "delta_timestamp")
    assert source.tombstone == "delta_tombstone"
    assert list(source.reads.schema) == [
        "id",
        "n",
        "delta_version",
        "delta_timestamp",
        "delta_change",
        "delta_tombstone",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"changes": "all"}, "changes 'all' is not one of append, feed"),
        ({"schema": {}}, "needs a path and a schema"),
        ({"path": ""}, "needs a path and a schema"),
        ({"schema": {"id": "STRING", "Delta_Version": "INT"}}, "has a column 'Delta_Version', which the source adds"),
        ({"order": ("m",)}, "order names 'm', which is no column of the schema; there are id, n"),
    ],
)
def test_a_table_that_is_declared_wrongly(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeltaTable(**{"path": "orders", "schema": SCHEMA, **given})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a source of a table needs 'key'|a source of a table needs key"),
        ({"key": ["id"], "duplicate_files": "read"}, "duplicate_files is of files"),
        ({"key": ["m"]}, "is 'm', which is no column of the source"),
    ],
)
def test_a_node_that_is_declared_wrongly(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        Pipeline("shop").table("orders", DeltaTable("orders", schema=SCHEMA), **options)
