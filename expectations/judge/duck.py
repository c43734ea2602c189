"""DuckDB judges, in this process: over the very files that an epoch staged, and those of pinned versions.

Each evaluation has a database of its own, in memory, with a limit; what does not fit is spilled into the home.
Relations are views, and so is what they are made of: a rule reads what it needs of them.

    {rows} of epoch 3     CREATE VIEW part_1 AS SELECT … FROM read_parquet(['…/epoch-3-5f0c/part-00000.parquet'])
                          CREATE VIEW r_rows AS SELECT * FROM part_1 WHERE epoch = 3
    shown                 (SELECT * FROM "shop"."settled"."changelog" WHERE epoch = 3)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivermeet.expectations.invariant import of_keys, relations_of
from rivermeet.expectations.judge.evaluation import Evaluation, Found, Judge
from rivermeet.expectations.results import Judged, Relation
from rivermeet.pipelines import Node

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType


def database(memory: str, spill: Path) -> DuckDBPyConnection:
    """A database in memory, up to a limit such as ``1g``, with the functions that rules and relations use.

    What does not fit goes to the folder ``spill``.
    """
    import duckdb

    from rivermeet.expectations.judge.spark_sql import MACROS

    connection = duckdb.connect(
        ":memory:",
        config={"memory_limit": f"{memory}b", "temp_directory": str(spill), "preserve_insertion_order": False},
    )
    for statement in ("SET TimeZone = 'UTC'", *MACROS):
        connection.execute(statement)
    return connection


def create_view(connection: DuckDBPyConnection, name: str, relation: Relation) -> str:
    """Make a view of a relation; its query over committed tables."""
    from rivermeet.expectations.judge.spark_sql import duck

    views = {part: f"{name}_{part}" for part in relation.parts}
    for part, view in views.items():
        connection.execute(f"CREATE TEMP VIEW {view} AS {relation.parts[part].query(connection)}")
    text = duck(relation.sql.format(**views))
    connection.execute(f"CREATE TEMP VIEW {name} AS {text}")
    return _replace_names(text, {view: relation.parts[part].shown for part, view in views.items()})


def add_hash(connection: DuckDBPyConnection, kind: DuckDBPyType) -> None:
    """Give queries of a connection Spark's ``xxhash64``, of values of one type."""
    from rivermeet.expectations.judge.xxhash64 import as_bigint

    given: dict[str, Any] = {"type": "arrow", "null_handling": "special"}
    connection.create_function("xxhash64", as_bigint, [kind], "BIGINT", **given)


@dataclass(frozen=True)
class InProcess(Judge):
    """The judge of this process; each evaluation has a `database`."""

    memory: str
    spill: Path

    @contextmanager
    def _open(self, node: Node, judged: Judged) -> Iterator[Evaluation]:
        with database(self.memory, self.spill) as connection:
            yield _Views(connection, node, judged)


class _Views(Evaluation):
    """Relations as views; ``_shown`` has their subqueries over committed tables."""

    engine = "duckdb"

    def __init__(self, connection: DuckDBPyConnection, node: Node, judged: Judged) -> None:
        super().__init__(node, judged)
        self.connection = connection
        self._hashes = False
        self._relations: dict[str, Relation] = {}
        self._shown: dict[str, str] = {}

    def _add_given(self, name: str, relation: Relation) -> None:
        view, self._relations[name] = _view(name), relation
        self._shown[view] = f"({create_view(self.connection, view, relation)})"
        self._shown |= {f"{view}_{part}": rows.shown for part, rows in relation.parts.items()}

    def _add_derived(self, name: str, query: str) -> None:
        # A table, as several rules read it.
        text, shown = self._over(query)
        self.connection.execute(f"CREATE TEMP TABLE {_view(name)} AS {text}")
        self._shown[_view(name)] = f"({shown})"

    def _find(self, query: str, sample: int) -> Found:
        text, shown = self._over(query)
        rows = self._column(f"SELECT to_json(__bad) FROM ({text}) AS __bad LIMIT {sample + 1}")
        count = len(rows) if len(rows) <= sample else self._column(f"SELECT count(*) FROM ({text})")[0]
        return Found(rows, count, shown)

    def _count_checked(self, about: str) -> int | None:
        known = super()._count_checked(about)
        if known is not None or about not in self.judged.relations:
            return known
        return self._column(f"SELECT count(*) FROM {_view(about)}")[0]

    def _over(self, query: str) -> tuple[str, str]:
        """A query over relations in braces: DuckDB's over their views, and over committed tables."""
        from rivermeet.expectations.judge.spark_sql import duck

        views = {name: _view(name) for name in relations_of(query)}
        for name in views:
            self[name]
        query = of_keys(query, self._rows_of_keys)
        if "xxhash64(" in query and not self._hashes:
            add_hash(self.connection, self.connection.sql(f"SELECT value FROM {_view('left')}").types[0])
            self._hashes = True
        text = duck(query.format(**views))
        return text, _replace_names(text, self._shown)

    def _rows_of_keys(self, name: str, keys: str) -> str:
        """A subquery of a relation's rows with some keys, over views of its parts."""
        relation = self._relations[name]
        views = {part: f"{_view(name)}_{part}" for part in relation.parts}
        # The keys still name relations; the braces of the relation itself are not fields to format.
        text = relation.of_keys("{{__keys}}").format(**views)
        return f"({text.replace('{', '{{').replace('}', '}}').replace('{{__keys}}', keys)})"

    def _column(self, query: str) -> list[Any]:
        import duckdb

        try:
            return [row[0] for row in self.connection.execute(query).fetchall()]
        except duckdb.OutOfMemoryException:
            # Each thread has its own buffers: one may fit where two do not, and only takes longer.
            self.connection.execute("SET threads = 1")
            return [row[0] for row in self.connection.execute(query).fetchall()]


def _view(name: str) -> str:
    return f"r_{name}"


def _replace_names(text: str, names: dict[str, str]) -> str:
    for name, shown in names.items():
        text = text.replace(f'"{name}"', shown)
    return text
