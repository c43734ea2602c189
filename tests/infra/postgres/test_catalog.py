"""What happened to a table between two epochs that the log does not say, apart from what does no harm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from rivermeet.infra.postgres.catalog import Alterations, catalog, log_problems
from rivermeet.infra.postgres.wal_range import KnownTable, WalRange
from rivermeet.infra.sources.postgres.slot import find_truncating
from rivermeet.pipelines import Postgres
from tests.servers.postgres import PostgresServer

PLAIN = (
    "CREATE TYPE mood AS ENUM ('glad', 'sad')",
    "CREATE TYPE place AS (street text, town text)",
    "CREATE TABLE t (id int PRIMARY KEY, n int, price numeric(6,2), name varchar(9), m mood[], p place, more int)",
    "INSERT INTO t VALUES (1, 1, 9.5, 'a', '{glad}', '(b,c)'), (2, 2, 9.5, 'a', '{sad}', '(b,c)')",
)
PARTS = (
    "CREATE TABLE t (id int PRIMARY KEY, n int, more int) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (id)",
    "CREATE TABLE high_low PARTITION OF high FOR VALUES FROM (10) TO (20)",
    "INSERT INTO t VALUES (1, 1), (2, 2), (11, 11)",
)
NEW = "CREATE TABLE {} (id int PRIMARY KEY, n int, more int)"
READS = {name: "STRING" for name in ("id", "n", "price", "name", "m", "p")}
OF_T = "FOR TABLE t"
ALL = "ALTER PUBLICATION pub SET (publish = 'insert, update, delete, truncate')"
FILLED = (NEW.format("x"), "INSERT INTO x VALUES (41, 41)")
ATTACHED = "ALTER TABLE t ATTACH PARTITION x FOR VALUES FROM (40) TO (50)"


@dataclass
class Read:
    """A published table with a slot, whose catalog was read."""

    connection: Any
    known: KnownTable
    range: WalRange

    def do(self, *statements: str) -> None:
        """Statements; one that begins with ``BEGIN;`` is a transaction of several."""
        for statement in statements:
            self.connection.execute(statement)

    def altered(self) -> list[str]:
        """What is wrong by now."""
        reads = Postgres("postgres.s.t", READS, "id")
        now = catalog(self.connection, reads, "pub", self.range.relation)
        after = Alterations(
            self.connection, reads, "pub", self.known, now, lambda: find_truncating(self.connection, self.range)
        )
        return [str(problem) for problem in (*log_problems(reads, now), *after.problems())]


@contextmanager
def read(
    postgres: PostgresServer, made: tuple[str, ...], of: str = OF_T, options: str = "", slot: bool = True
) -> Iterator[Read]:
    import psycopg

    with psycopg.connect(f"{postgres.dsn} dbname=postgres", autocommit=True) as connection:
        done = cast(Any, connection)
        done.execute("DROP SCHEMA IF EXISTS s CASCADE")
        done.execute("CREATE SCHEMA s")
        done.execute("SET search_path = s")
        for statement in made:
            done.execute(statement)
        done.execute(f"CREATE PUBLICATION pub {of} WITH (publish_via_partition_root = true{options})")
        if slot:
            done.execute("SELECT pg_create_logical_replication_slot('catalog', 'pgoutput')")
        try:
            ((oid,),) = done.execute("SELECT 't'::regclass::oid").fetchall()
            known = catalog(connection, Postgres("postgres.s.t", READS, "id"), "pub", oid).known
            # As a plan keeps it.
            known = KnownTable.model_validate_json(known.model_dump_json())
            yield Read(done, known, WalRange(table="t", slot="catalog", publication="pub", relation=oid))
        finally:
            if slot:
                done.execute("SELECT pg_drop_replication_slot('catalog')")
            done.execute("DROP PUBLICATION pub")
            done.execute("DROP SCHEMA s CASCADE")


@pytest.mark.parametrize(
    ("says", "statements"),
    [
        ("column 'n' got another type", ("ALTER TABLE t ALTER n TYPE bigint USING n * 100",)),
        ("column 'price' got another type", ("ALTER TABLE t ALTER price TYPE numeric(6,1)",)),
        ("all rows were rewritten", ("ALTER TABLE t ALTER n TYPE int USING n * 100",)),
        (
            "all rows were rewritten",
            ("ALTER TABLE t ALTER n TYPE int USING n * 100", "ALTER TABLE t ALTER n TYPE int USING n / 100"),
        ),
        ("all rows were rewritten", ("ALTER TABLE t ALTER n TYPE int USING 7", "VACUUM FULL t")),
        ("column 'name' got another type", ("ALTER TABLE t ALTER name TYPE text USING upper(name)",)),
        ("column 'n' is another one", ("ALTER TABLE t DROP n", "ALTER TABLE t ADD n int DEFAULT 77")),
        ("column 'n' is another one", ("ALTER TABLE t RENAME n TO x", "ALTER TABLE t RENAME more TO n")),
        ("another label", ("ALTER TYPE mood RENAME VALUE 'glad' TO 'happy'",)),
        (
            "another label",
            ("ALTER TYPE mood RENAME VALUE 'glad' TO 'x'", "ALTER TYPE mood RENAME VALUE 'x' TO 'glad'"),
        ),
        ("composite type has other attributes", ("ALTER TYPE place ADD ATTRIBUTE zip text",)),
        ("composite type has other attributes", ("ALTER TYPE place DROP ATTRIBUTE street",)),
    ],
)
def test_a_table_that_was_altered(postgres: PostgresServer, says: str, statements: tuple[str, ...]) -> None:
    with read(postgres, PLAIN) as table:
        table.do(*statements)
        assert any(says in problem for problem in table.altered()), table.altered()


@pytest.mark.parametrize(
    "statements",
    [
        (),
        ("VACUUM FULL t",),
        ("CLUSTER t USING t_pkey", "VACUUM (FREEZE) t", "ANALYZE t", "VACUUM FULL pg_attribute"),
        ("ALTER TABLE t ALTER n SET DEFAULT 4", "VACUUM FULL t"),
        ("ALTER TABLE t ALTER n SET NOT NULL", "GRANT SELECT (n) ON t TO public"),
        ("TRUNCATE t", "INSERT INTO t VALUES (7, 7)"),
        ("TRUNCATE t", "ALTER TABLE t ALTER n SET NOT NULL", "TRUNCATE t"),
        ("DO $$ BEGIN BEGIN TRUNCATE t; EXCEPTION WHEN others THEN END; END $$",),
        ("ALTER TABLE t ALTER n TYPE int USING n * 100", "TRUNCATE t"),
        ("ALTER TABLE t ALTER name TYPE text", "ALTER TABLE t ALTER price TYPE numeric(8,2)"),
        ("ALTER TABLE t ADD u uuid DEFAULT gen_random_uuid()", "ALTER TABLE t ADD v int DEFAULT 5"),
        ("ALTER TABLE t DROP more", "ALTER TABLE t ADD more text"),
        ("ALTER TABLE t ALTER more TYPE text USING 'x'",),
        ("ALTER TYPE mood ADD VALUE 'dull' BEFORE 'sad'", "ALTER TYPE place RENAME ATTRIBUTE town TO city"),
        ("ALTER TABLE t RENAME n TO x", "ALTER TABLE t RENAME x TO n"),
        ("ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t", "CREATE INDEX ON t (n)"),
    ],
)
def test_a_table_that_is_as_it_was(postgres: PostgresServer, statements: tuple[str, ...]) -> None:
    with read(postgres, PLAIN) as table:
        table.do(*statements)
        assert table.altered() == []


@pytest.mark.parametrize(
    ("says", "statements"),
    [
        ("all rows of partition 'low' were rewritten, or removed", ("TRUNCATE low",)),
        ("all rows of partition 'low'", ("INSERT INTO t VALUES (3, 3)", "TRUNCATE t", "TRUNCATE low")),
        ("all rows of partition 'high_low'", ("TRUNCATE high", "INSERT INTO t VALUES (12, 12)")),
        ("all rows of partition 'low'", ("ALTER TABLE t ALTER n TYPE int USING n * 100",)),
        ("column 'n' got another type", ("ALTER TABLE t ALTER n TYPE bigint",)),
        ("partition 'low' was detached or dropped", ("ALTER TABLE t DETACH PARTITION low",)),
        ("partition 'low' was detached or dropped", ("DROP TABLE low",)),
        ("partition 'high' was detached or dropped", ("DROP TABLE high",)),
        (
            "partition 'low' was detached for a while",
            (
                "ALTER TABLE t DETACH PARTITION low",
                "UPDATE low SET n = 7",
                "ALTER TABLE t ATTACH PARTITION low FOR VALUES FROM (0) TO (10)",
            ),
        ),
        (
            "partition 'high' was detached for a while",
            (
                "ALTER TABLE t DETACH PARTITION high",
                "UPDATE high SET n = 7",
                "ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (10) TO (30)",
            ),
        ),
        ("partition 'x' was attached with rows", (*FILLED, ATTACHED)),
        ("partition 'x' was attached with rows", (f"BEGIN; {'; '.join(FILLED)}; {ATTACHED}; COMMIT",)),
        ("partition 'x' was attached with rows", (*FILLED, ATTACHED, "TRUNCATE x")),
        (
            "partition 'y' was attached with rows",
            (
                "CREATE TABLE x (id int PRIMARY KEY, n int, more int) PARTITION BY RANGE (id)",
                "CREATE TABLE y PARTITION OF x FOR VALUES FROM (40) TO (50)",
                "INSERT INTO x VALUES (41, 41)",
                ATTACHED,
            ),
        ),
        (
            "all rows of partition 'x' were rewritten, or removed",
            (
                "CREATE TABLE x PARTITION OF t FOR VALUES FROM (40) TO (50)",
                "INSERT INTO t VALUES (41, 41)",
                "TRUNCATE x",
            ),
        ),
        (
            "a partition of 'postgres.s.t' that is not LOGGED: ALTER TABLE s.low SET LOGGED",
            ("ALTER TABLE low SET UNLOGGED",),
        ),
        (
            "all rows of partition 'low' were rewritten",
            ("ALTER TABLE low SET UNLOGGED", "UPDATE t SET n = 7", "ALTER TABLE low SET LOGGED"),
        ),
        (
            "the log has no changes of 's.far', a partition of 'postgres.s.t' on another server",
            (
                "CREATE FOREIGN DATA WRAPPER w",
                "CREATE SERVER far FOREIGN DATA WRAPPER w",
                "CREATE FOREIGN TABLE far PARTITION OF t FOR VALUES FROM (90) TO (91) SERVER far",
            ),
        ),
    ],
)
def test_partitions_that_were_altered(postgres: PostgresServer, says: str, statements: tuple[str, ...]) -> None:
    # A unique index has no partition on another server.
    parts = PARTS if "far" not in says else tuple(statement.replace("PRIMARY KEY", "") for statement in PARTS)
    with read(postgres, parts) as table:
        table.do(*statements)
        found = table.altered()
        table.do("DROP FOREIGN DATA WRAPPER IF EXISTS w CASCADE")
        assert any(says in problem for problem in found), found


@pytest.mark.parametrize(
    "statements",
    [
        ("VACUUM FULL low", "CLUSTER high_low USING high_low_pkey"),
        ("TRUNCATE t", "INSERT INTO t VALUES (1, 1)", "ANALYZE t"),
        ("TRUNCATE low", "TRUNCATE t"),
        ("ALTER TABLE t ADD u uuid DEFAULT gen_random_uuid()", "ALTER TABLE t ADD v int DEFAULT 5"),
        ("CREATE TABLE x PARTITION OF t FOR VALUES FROM (40) TO (50)", "INSERT INTO t VALUES (41, 41)"),
        (
            "BEGIN; CREATE TABLE x PARTITION OF t FOR VALUES FROM (40) TO (50); INSERT INTO t VALUES (41, 41); COMMIT",
            "GRANT SELECT ON x TO public",
            "CREATE INDEX ON x (n)",
        ),
        (
            "CREATE TABLE x PARTITION OF t FOR VALUES FROM (40) TO (50) PARTITION BY RANGE (id)",
            "CREATE TABLE y PARTITION OF x DEFAULT",
            "INSERT INTO t VALUES (41, 41)",
        ),
        (NEW.format("x"), ATTACHED),
        (f"BEGIN; {NEW.format('x')}; {ATTACHED}; COMMIT",),
        ("UPDATE t SET id = 12 WHERE id = 1", "VACUUM FULL low"),
    ],
)
def test_partitions_as_they_were(postgres: PostgresServer, statements: tuple[str, ...]) -> None:
    """Empty partitions that come, among them: the everyday monthly one."""
    with read(postgres, PARTS) as table:
        table.do(*statements)
        assert table.altered() == []


@pytest.mark.parametrize(
    ("of", "there", "back"),
    [
        (
            OF_T,
            "ALTER PUBLICATION pub SET (publish = 'insert')",
            ALL,
        ),
        (
            OF_T,
            "ALTER PUBLICATION pub SET (publish_via_partition_root = false)",
            "ALTER PUBLICATION pub SET (publish_via_partition_root = true)",
        ),
        (OF_T, "ALTER PUBLICATION pub SET TABLE t WHERE (id > 1)", "ALTER PUBLICATION pub SET TABLE t"),
        (OF_T, "ALTER PUBLICATION pub SET TABLE t (id)", "ALTER PUBLICATION pub SET TABLE t"),
        (OF_T, "ALTER PUBLICATION pub DROP TABLE t", "ALTER PUBLICATION pub ADD TABLE t"),
        (
            "FOR ALL TABLES",
            "DROP PUBLICATION pub",
            "CREATE PUBLICATION pub FOR ALL TABLES WITH (publish_via_partition_root = true)",
        ),
        (
            "FOR TABLES IN SCHEMA s",
            "ALTER PUBLICATION pub DROP TABLES IN SCHEMA s",
            "ALTER PUBLICATION pub ADD TABLES IN SCHEMA s",
        ),
    ],
)
def test_a_publication_that_was_altered_and_altered_back(
    postgres: PostgresServer, of: str, there: str, back: str
) -> None:
    with read(postgres, PARTS, of, slot=False) as table:
        table.do("CREATE TABLE u (id int PRIMARY KEY)")
        if of == OF_T:
            table.do("ALTER PUBLICATION pub ADD TABLE u")
        table.do("VACUUM (FULL, FREEZE) pg_publication", "VACUUM (FULL, FREEZE) pg_publication_rel")
        assert table.altered() == []
        table.do(there, back)
        (problem,) = table.altered()
        assert "publication pub was altered, or what it has of 'postgres.s.t' was, maybe there and back" in problem


def test_a_table_that_was_not_logged_for_a_while(postgres: PostgresServer) -> None:
    """What is published with all tables may be: a new file is explained by a truncate alone."""
    with read(postgres, PLAIN, "FOR ALL TABLES") as table:
        table.do("TRUNCATE t", "INSERT INTO t VALUES (7, 7)")
        assert table.altered() == []
        table.do("ALTER TABLE t SET UNLOGGED", "UPDATE t SET n = 8", "ALTER TABLE t SET LOGGED")
        assert any("all rows were rewritten" in problem for problem in table.altered())


def test_names_that_are_quoted(postgres: PostgresServer) -> None:
    made = tuple(statement.replace(" low ", ' "L ""o" ') for statement in PARTS)
    with read(postgres, made) as table:
        table.do('VACUUM FULL "L ""o"')
        assert table.altered() == []
        table.do('TRUNCATE "L ""o"')
        assert any("all rows of partition 'L \"o'" in problem for problem in table.altered())
