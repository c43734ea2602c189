"""A table that is altered after its epoch was planned, and before it is read: refused with the remedy, or read.

| between plan and read | the epoch |
|---|---|
| a column is dropped, or renamed | is refused: the table has no such column |
| the table is renamed | is refused: there is no such table |
| it is dropped and recreated | is refused until it is read again |
| a column is added that nobody declares | is read |
| a column gets another type of the same bytes | is read; a value that is none of the declared type is a dead letter |
| rows are rewritten, or come or go without the log | is refused until it is read again |
"""

from __future__ import annotations

import pytest

from rivermeet.infra.postgres.refusals import (
    ColumnMissingError,
    NotPublishedError,
    PostgresRefusedError,
    PostgresTableMissingError,
    TableAlteredError,
)
from rivermeet.pipelines import Pipeline, Table
from tests.crashes import crashing_at
from tests.infra.sources.postgres.base import Base
from tests.reliability import handled, survived

pytestmark = pytest.mark.slow
SCHEMA = {"id": "INT", "n": "INT"}
FAULT = "a table altered between plan and read: "


def planned(base: Base, *altered: str) -> Table:
    """A table that is altered after an update and an insert are planned, and before they are read."""
    base.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    node = Pipeline("shop").table("t", base.table("t", SCHEMA), max_bad_share=0.9)
    base.run(node)
    base.do("UPDATE t SET n = 5 WHERE id = 1", "INSERT INTO t VALUES (3, 3)")
    with crashing_at("planned"):
        base.run(node)
    base.do(*altered)
    return node


def refused(base: Base, node: Table, kind: type[PostgresRefusedError], says: str) -> None:
    """Every run is refused, and nothing is committed."""
    for _ in range(2):
        with pytest.raises(kind, match=says):
            base.run(node)
    assert base.folded(node) == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("altered", "back", "kind", "says"),
    [
        pytest.param(
            "ALTER TABLE t RENAME n TO m",
            "ALTER TABLE t RENAME m TO n",
            ColumnMissingError,
            "has no column 'n', or computes it; it has id, m: take it out of the schema",
            id="column renamed",
        ),
        pytest.param(
            "ALTER TABLE t RENAME TO u",
            "ALTER TABLE u RENAME TO t",
            PostgresTableMissingError,
            "there is no table '.*public.t'; correct the declaration, or make it",
            id="table renamed",
        ),
    ],
)
def test_a_name_that_is_gone(base: Base, altered: str, back: str, kind: type[PostgresRefusedError], says: str) -> None:
    """Once it has the name again, the plan is read as it stands."""
    node = planned(base, altered)
    refused(base, node, kind, says)
    base.do(back)
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    survived(f"{FAULT}renamed", "refused; with its name back, what was planned is read")


def test_a_column_that_is_dropped(base: Base) -> None:
    """A column of the name that comes in its place has nothing of what was planned: the whole table is read again."""
    node = planned(base, "ALTER TABLE t DROP n")
    refused(base, node, ColumnMissingError, "has no column 'n'.*take it out of the schema")
    base.do("ALTER TABLE t ADD n int", "UPDATE t SET n = 7 WHERE id = 2")
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")
    assert base.folded(node) == [(1, None), (2, 7), (3, None)]
    survived(f"{FAULT}column dropped", "refused; `resnapshot` reads the whole table into a new incarnation")


@pytest.mark.prove
def test_a_table_that_is_recreated(base: Base) -> None:
    node = planned(
        base, "DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 9), (4, 4)"
    )
    refused(base, node, PostgresTableMissingError, "was dropped and recreated: its rows are others.*resnapshot shop t")
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")
    base.do("UPDATE t SET n = 8 WHERE id = 4", "DELETE FROM t WHERE id = 1")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    survived(f"{FAULT}dropped and recreated", "refused; `resnapshot` reads the whole table into a new incarnation")


def test_a_column_that_is_added_or_of_another_type(base: Base) -> None:
    """The log has each change as the table was then; what is not INT is a dead letter, and other rows go on."""
    base.do("CREATE TABLE t (id int PRIMARY KEY, n varchar(4))", "INSERT INTO t VALUES (1, '1'), (2, '2')")
    node = Pipeline("shop").table("t", base.table("t", SCHEMA), max_bad_share=0.9)
    base.run(node)
    base.do("INSERT INTO t VALUES (3, '3')")
    with crashing_at("planned"):
        base.run(node)
    base.do(
        "ALTER TABLE t ADD more text DEFAULT 'x'",
        "UPDATE t SET n = '6', more = 'y' WHERE id = 2",
        "ALTER TABLE t ALTER n TYPE text",
        "VACUUM FULL t",
        "INSERT INTO t VALUES (4, '40'), (5, 'many')",
        "UPDATE t SET n = '70' WHERE id = 3",
    )
    base.run(node)
    base.run(node)
    assert base.folded(node) == [(1, 1), (2, 6), (3, 70), (4, 40)]
    (letter,) = base.letters(node)
    assert "column 'n': 'many' is not INT" in letter["reason"]
    base.do("UPDATE t SET n = '50' WHERE id = 5")
    base.run(node)
    assert base.folded(node) == [(1, 1), (2, 6), (3, 70), (4, 40), (5, 50)]
    survived(f"{FAULT}column added, or of another type", "read; a value that is none of the declared type is a letter")
    handled("PostgreSQL", "ADD COLUMN with a default, VACUUM FULL or CLUSTER between two runs", "read on")


PARTS = (
    "CREATE TABLE t (id int PRIMARY KEY, n int) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)",
    "INSERT INTO t VALUES (1, 1), (2, 2)",
)


def test_values_that_were_altered_between_two_changes(base: Base) -> None:
    """The log has the changes before and after, and nothing of the rows in between."""
    base.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    node = Pipeline("shop").table("t", base.table("t", SCHEMA))
    base.run(node)
    base.do(
        "INSERT INTO t VALUES (3, 3)",
        "ALTER TABLE t ALTER n TYPE int USING n * 100",
        "INSERT INTO t VALUES (4, 4)",
    )
    refused(base, node, TableAlteredError, "all rows were rewritten, or removed,.*resnapshot shop t")
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")
    base.do("UPDATE t SET n = 5 WHERE id = 4")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    handled(
        "PostgreSQL",
        "ALTER COLUMN … TYPE … USING, DROP and ADD of a column, RENAME VALUE of an enum, between two changes",
        "refused: the log has nothing of it; `resnapshot` reads the whole table again",
    )


def test_a_column_that_has_another_name_for_a_while(base: Base) -> None:
    base.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    node = Pipeline("shop").table("t", base.table("t", SCHEMA))
    base.run(node)
    base.do("ALTER TABLE t RENAME n TO m", "INSERT INTO t VALUES (3, 3)", "ALTER TABLE t RENAME m TO n")
    refused(base, node, TableAlteredError, "column 'n' had another name for a while.*resnapshot shop t")
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")
    handled("PostgreSQL", "a column renamed and renamed back between two runs", "refused; no NULL in its place")


def test_a_partition_that_came_or_went(base: Base) -> None:
    """A new one that is empty is read on, as is a truncate of all; one that is emptied by itself is refused."""
    base.do(*PARTS)
    node = Pipeline("shop").table("t", base.table("t", SCHEMA))
    base.run(node)
    base.do("TRUNCATE t", "INSERT INTO t VALUES (3, 3)", "CREATE TABLE more PARTITION OF t DEFAULT")
    base.do("INSERT INTO t VALUES (31, 31)")
    base.run(node)
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    base.do("VACUUM FULL more", "UPDATE t SET id = 11 WHERE id = 3")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    base.do("UPDATE t SET n = 7 WHERE id = 11", "TRUNCATE more")
    with pytest.raises(TableAlteredError, match=r"all rows of partition 'more' were .* removed.*resnapshot shop t"):
        base.run(node)
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")
    base.do("UPDATE t SET n = 12 WHERE id = 11")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    handled(
        "PostgreSQL",
        "a partition truncated by itself, detached, dropped, or attached with rows",
        "refused: the log has nothing of it; `resnapshot` reads the whole table again",
    )
    handled("PostgreSQL", "a partition that comes empty; TRUNCATE of the whole table", "read on")


def test_a_publication_altered_there_and_back(base: Base) -> None:
    base.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    node = Pipeline("shop").table("t", base.table("t", SCHEMA))
    base.run(node)
    base.do(
        "ALTER PUBLICATION rivermeet_shop SET (publish = 'insert')",
        "DELETE FROM t WHERE id = 1",
        "ALTER PUBLICATION rivermeet_shop SET (publish = 'insert, update, delete, truncate')",
    )
    refused(base, node, NotPublishedError, "publication rivermeet_shop was altered.*resnapshot shop t")
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")
    handled(
        "PostgreSQL",
        "an option, a filter or a table of the publication altered, and altered back, between two runs",
        "refused: changes may be lost; `resnapshot` reads the whole table again",
    )
