"""Topics of envelopes, run by the real commit protocol: what they fold to is the table of the database."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from pipelines import Debezium, Kafka, Pipeline, Table
from tests.crashes import crashing_at
from tests.infra.sources.kafka.debezium.recorded import Recorded, envelope, recorded
from tests.infra.sources.kafka.town import Town
from tests.reliability import survived

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
    """Repeats across epochs are passed over, and counted."""
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
    survived("changes that Debezium repeats after a restart", "passed over by their place in the log, and counted")


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
