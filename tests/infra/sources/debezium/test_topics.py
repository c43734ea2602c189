"""Topics of envelopes, run by the real commit protocol: what they fold to is the table of the database."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from rivermeet.infra.sources.debezium.ingest import AnotherDatabaseError
from rivermeet.pipelines import Debezium, Kafka, Pipeline, Table
from tests.crashes import crashing_at
from tests.infra.sources.debezium.recorded import Recorded, envelope, recorded
from tests.infra.sources.kafka.town import Town
from tests.reliability import handled, survived

pytestmark = pytest.mark.slow
KEY = Debezium({"id": "INT"})
MARK = "__debezium_unavailable_value"


def orders(town: Town, format: Debezium, name: str = "orders", **options: Any) -> Table:
    source = Kafka(town.named("orders"), key=KEY, value=format)
    return Pipeline("shop").table(name, source, max_bad_share=0.9, **options)


def put(town: Town, *records: Recorded) -> None:
    town.send("orders", *[(0, one.key, one.value, 1_000) for one in records])


def change(op: str, id: int, lsn: int, **row: Any) -> Recorded:
    """A change without a schema, committed at its LSN."""
    source = {"lsn": lsn, "sequence": json.dumps([str(lsn), str(lsn)]), "ts_ms": lsn}
    return Recorded("", json.dumps({"id": id}).encode(), envelope(op, {"id": id, **row}, **source))


def folded(town: Town, node: Table) -> list[tuple[Any, ...]]:
    rows = town.world.rows(node, "table")
    return sorted(tuple(cell for name, cell in row.items() if not name.startswith("_")) for row in rows)


@pytest.mark.parametrize("epochs", [pytest.param(1, marks=pytest.mark.prove), 4])
def test_recorded_envelopes(town: Town, epochs: int) -> None:
    """The statements of README.md: all but the row whose key was changed, and what a TRUNCATE leaves."""
    town.make("orders")
    columns = {"customer": "STRING", "amount": "DECIMAL(10,2)", "day": "DATE", "at": "TIMESTAMP", "exact": "TIMESTAMP"}
    node = orders(town, Debezium({**columns, "any_n": "DECIMAL(10,4)", "note": "STRING"}))
    records = recorded("schemas")
    size = -(-len(records) // epochs)
    for start in range(0, len(records), size):
        put(town, *records[start : start + size])
        town.run(node)
    at = datetime(2024, 1, 2, 1, 4, 5, 678901, tzinfo=UTC).replace(tzinfo=None)
    exact = datetime(2024, 1, 2, 3, 4, 5, 678901)
    assert folded(town, node) == [
        (2, "dan", Decimal("7.00"), None, None, None, None, None),
        (4, "ann", Decimal("99.99"), date(2024, 1, 2), at, exact, Decimal("123.4567"), "z" * 3000),
        (9, "eve", None, None, None, None, None, None),
    ]
    reasons = [letter["reason"] for letter in town.letters(node)]
    assert len(reasons) == 2 and "REPLICA IDENTITY FULL" in reasons[0] and "is a TRUNCATE of the table" in reasons[1]


def test_values_that_were_not_changed_are_kept(town: Town) -> None:
    """Of the changelog, and of earlier rows of the same epoch; not those of a row that was deleted."""
    town.make("orders")
    node = orders(town, Debezium({"n": "INT", "note": "STRING"}))
    put(
        town, change("c", 1, 1, n=1, note="long"), change("c", 2, 2, n=1, note="two"), change("c", 3, 3, n=1, note=None)
    )
    town.run(node)
    put(
        town,
        change("u", 1, 4, n=2, note=MARK),
        change("u", 2, 5, n=2, note="other"),
        change("u", 2, 6, n=3, note=MARK),
        change("u", 3, 7, n=2, note=MARK),
        change("u", 9, 8, n=2, note=MARK),
        change("d", 1, 9),
        change("c", 1, 10, n=3, note=MARK),
    )
    town.run(node)
    values = [(key[0], value) for _, _, key, value, _ in town.rows(node)][3:]
    assert values == [
        (1, (2, "long")),
        (2, (2, "other")),
        (2, (3, "other")),
        (3, (2, None)),
        (1, None),
    ]
    assert [letter["line"] for letter in town.letters(node)] == [7, 9]
    assert all(letter["text"] and "no row of its key has it" in letter["reason"] for letter in town.letters(node))


def test_expressions_over_a_value_that_is_not_there(town: Town) -> None:
    town.make("orders")
    value = {"n": "n", "size": "note"}
    node = orders(town, Debezium({"n": "INT", "note": "STRING"}), value=value, where="note IS NULL OR note <> 'no'")
    put(town, change("c", 1, 1, n=1, note="long"), change("u", 1, 2, n=2, note=MARK))
    town.run(node)
    (letter,) = town.letters(node)
    assert "and where asks for it" in letter["reason"]


@pytest.mark.prove
def test_a_connector_that_was_restarted(town: Town) -> None:
    """Repeats across epochs are skipped, and counted."""
    town.make("orders")
    node, whole = orders(town, Debezium({"n": "INT"})), orders(town, Debezium({"n": "INT"}), "whole")
    first, rest = recorded("restart")[:14], recorded("restart")[14:]
    put(town, *first)
    result = town.run(node)
    assert result is not None and result.sides["delete_marks"] == 2
    put(town, *first[4:], *rest)
    result = town.run(node)
    assert result is not None
    assert (result.sides["repeats"], result.sides["delete_marks"], result.rows) == (8, 2, 2)
    town.run(whole)
    assert town.rows(node) == town.rows(whole)
    assert folded(town, node) == [(1, 12), (4, 3), (50, 50), (60, 60), (61, 61), (70, 70)]
    survived("changes that Debezium repeats after a restart", "skipped by their position in the log, and counted")


@pytest.mark.parametrize("point", ["landed", pytest.param("committed", marks=pytest.mark.prove)])
def test_killed_at_every_point(town: Town, point: str) -> None:
    """The positions of an attempt that died count once, as those of the epoch."""
    town.make("orders")
    node, whole = orders(town, Debezium({"n": "INT"})), orders(town, Debezium({"n": "INT"}), "whole")
    first, rest = recorded("restart")[:14], recorded("restart")[14:]
    put(town, *first)
    with crashing_at(point):
        town.run(node)
    town.run(whole)
    put(town, *first[-5:], *rest)
    while town.run(node) is not None:
        pass
    town.run(whole)
    assert town.rows(node) == town.rows(whole)


def test_pages_of_a_copy_into_a_table_without_a_key(town: Town) -> None:
    """Recorded, with four starts of the connector: a stream has each row once, and a table the rows that are there.

    Deletes of a table without a key have one where `before` is whole, as under REPLICA IDENTITY FULL.
    """
    town.make("orders")
    source = Kafka(town.named("orders"), value=Debezium({"a": "INT", "note": "STRING"}, full=True))
    stream = Pipeline("copied").stream("rows", source, key={"a": "a"}, value={"note": "note"}, partitions=1)
    table = Pipeline("copies").table("rows", source, key={"a": "a"}, value={"note": "note"}, partitions=1)
    records = recorded("copies", "keyless")
    for start in range(0, len(records), 8):
        put(town, *records[start : start + 8])
        town.run(stream)
    town.run(table)
    copied = [(0, "s"), (0, "s"), (1, "x"), (2, "y"), (1, "x"), (3, "z"), (3, None), (5, "q"), (5, "q"), (6, "q")]
    assert [(key[0], value and value[0]) for _, _, key, value, _ in town.rows(stream)] == copied
    assert folded(town, table) == [(0, "s"), (1, "x"), (2, "y"), (5, "q"), (6, "q")]
    assert town.letters(stream) == town.letters(table) == []


def test_values_of_types_that_have_a_marker_of_their_own(town: Town) -> None:
    """The row keeps them; null of a type that has none is refused where the row has a value."""
    town.make("orders")
    types = {"ids": "ARRAY<INT>", "refs": "ARRAY<STRING>", "tags": "MAP<STRING, STRING>", "rates": "ARRAY<DOUBLE>"}
    node = orders(town, Debezium({"n": "INT", **types}, unavailable="n/a"))
    marks = {"ids": [110, 47, 97], "refs": ["274b6819-2b05-3e26-8f12-8ff63bfcd4a4"], "tags": {"n/a": "n/a"}}
    row = {"ids": [1], "refs": ["x"], "tags": {"a": "b"}}
    put(town, change("c", 1, 1, n=1, rates=[1.5], **row), change("c", 2, 2, n=1, rates=None, **row))
    town.run(node)
    put(town, change("u", 1, 3, n=2, rates=None, **marks), change("u", 2, 4, n=2, rates=None, **marks))
    town.run(node)
    assert folded(town, node) == [(1, 1, [1], ["x"], {"a": "b"}, [1.5]), (2, 2, [1], ["x"], {"a": "b"}, None)]
    (letter,) = town.letters(node)
    assert "'rates' is null, as is a large value of its type that was not changed" in letter["reason"]
    handled(
        "Debezium",
        "null in an update, where the type (smallint[], numeric[], float8[], timestamp[] …) has no marker",
        "taken where the row has none; else a dead letter that names REPLICA IDENTITY FULL",
    )


def test_a_database_that_was_put_back(town: Town) -> None:
    """Its changes lie below what was read; refused each time, until they are accepted. A new snapshot needs no word."""
    town.make("orders")
    node = orders(town, Debezium({"n": "INT"}))
    put(town, change("c", 1, 900, n=1), change("c", 2, 901, n=1))
    town.run(node)
    later = change("u", 1, 500, n=2)
    assert later.value is not None
    put(town, later._replace(value=later.value.replace(b'"ts_ms": 500', b'"ts_ms": 5000')))
    for _ in range(2):
        with pytest.raises(AnotherDatabaseError, match=r"restored.*`rivermeet accept-loss shop orders` reads on"):
            town.run(node)
    assert town.run(node, accept_loss=True) is not None
    put(town, change("r", 3, 400, n=3), change("u", 3, 401, n=4))
    town.run(node)
    assert folded(town, node) == [(1, 2), (2, 1), (3, 4)]
    town.rebuild(node)
    assert folded(town, node) == [(1, 2), (2, 1), (3, 4)], "what was accepted once stays so"
    handled(
        "Debezium",
        "changes of another server, or of a database that was restored, at lower positions",
        "refused; `accept-loss` reads on from there, and a new snapshot starts over by itself",
    )
