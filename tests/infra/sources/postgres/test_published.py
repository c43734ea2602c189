"""What is published, and what a user may see, against what a snapshot reads: the same rows and columns, or refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier, local
from typing import Any
from uuid import uuid4

import pytest

from rivermeet.assets.cli.sources import inspect_sources, script
from rivermeet.infra.postgres import publication as publications
from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.refusals import PostgresRefusedError
from rivermeet.infra.postgres.state import PublicationState
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.postgres.ingest import PostgresStep
from rivermeet.pipelines import Node, Pipeline, Postgres
from tests.assets.home import homed
from tests.infra.sources.postgres.base import Base
from tests.reliability import handled
from tests.servers.postgres import binaries

pytestmark = pytest.mark.slow
SCHEMA = {"id": "INT", "n": "INT"}
T, U = "CREATE TABLE t (id int PRIMARY KEY, n int)", "CREATE TABLE u (id int PRIMARY KEY, n int)"
PARTS = ("CREATE TABLE p (id int PRIMARY KEY, n int) PARTITION BY LIST (id)", "CREATE TABLE p1 PARTITION OF p DEFAULT")
FOR_ALL = "CREATE PUBLICATION rivermeet_shop FOR ALL TABLES"
VIA_ROOT = "publish_via_partition_root = true"
ALL_CHANGES = "publish = 'insert, update, delete, truncate'"


@pytest.fixture
def user(base: Base) -> Iterator[str]:
    """A role that may decode changes and read nothing."""
    name = f"reader_{uuid4().hex[:8]}"
    base.do(f"CREATE ROLE {name} LOGIN REPLICATION")
    yield name
    base.drop_slots()
    base.do(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def nodes(base: Base, *tables: str) -> list[Node]:
    """Sources of these tables in one pipeline."""
    made = Pipeline("shop")
    return [made.table(table, base.table(table, SCHEMA)) for table in tables]


def step_of(base: Base, node: Node, user: str | None = None) -> PostgresStep:
    step = base.step(node)
    dsn = base.server.dsn if user is None else base.server.dsn.replace("=postgres", f"={user}")
    return replace(step, slot=replace(step.slot, database=Database(dsn, base.name)))


def problems(base: Base, node: Node, user: str | None = None) -> list[PostgresRefusedError]:
    step = step_of(base, node, user)
    with step.database.open_connection() as connection:
        return list(step.problems(connection, step.position(step.note())))


def test_three_that_find_no_publication_at_a_time_make_it_once(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [base.table(name, SCHEMA) for name in ("t", "u", "p")]
    base.do(T, U, *PARTS)
    looked, each, look = Barrier(3), local(), publications.publication

    def all_look_first(*given: Any) -> publications.Publication:
        found = look(*given)
        if not hasattr(each, "looked"):
            each.looked = True
            looked.wait(30)
        return found

    monkeypatch.setattr(publications, "publication", all_look_first)

    def published(reads: Postgres) -> PublicationState | None:
        with Database(base.server.dsn, base.name).open_connection() as connection:
            # Of sources that know nothing of each other, as those of two homes.
            return publications.publish(connection, "rivermeet_shop", [reads], reads)[0].tables[reads.table][1]

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(published, tables))
    assert all(state is not None and state.has_table for state in found)
    handled("PostgreSQL", "sources that find no publication at the same time", "it is made once, with all their tables")


@pytest.mark.parametrize("made", ["before the first run", "after it"])
def test_rows_that_come_before_their_table_is_published(base: Base, made: str) -> None:
    """Changes are decoded by the catalog of their time, and the snapshot that sources share is older than that."""
    t, u = nodes(base, "t", "u")
    base.do(T, *([U] if made.startswith("before") else []))
    base.run(t)
    base.do(*([] if made.startswith("before") else [U]), "INSERT INTO u VALUES (1, 1)")
    base.run(u)
    base.do("INSERT INTO u VALUES (2, 2)")
    base.run_all([t, u])
    base.same(u, "SELECT id, n FROM u")
    what = "rows written between the snapshot that sources share and their table's publication"
    handled("PostgreSQL", what, "all read: a table is published before the snapshot that shows it")


@pytest.mark.parametrize(
    ("publication", "cure"),
    [
        (FOR_ALL, [f"SET ({VIA_ROOT})"]),
        (f"{FOR_ALL} WITH (publish = 'insert, update')", [f"SET ({ALL_CHANGES}, {VIA_ROOT})"]),
        ("CREATE PUBLICATION rivermeet_shop FOR TABLE t, p", [f"SET ({VIA_ROOT})", "ADD TABLE public.u"]),
        (
            "CREATE PUBLICATION rivermeet_shop FOR TABLE p1",
            [f"SET ({VIA_ROOT})", "ADD TABLE public.p, public.t, public.u"],
        ),
        (f"CREATE PUBLICATION rivermeet_shop WITH ({VIA_ROOT})", ["ADD TABLE public.p, public.t, public.u"]),
        (
            f"CREATE PUBLICATION rivermeet_shop FOR TABLE t WHERE (id > 1), u (id), p WITH ({VIA_ROOT})",
            ["DROP TABLE public.t, public.u", "ADD TABLE public.t, public.u"],
        ),
        ("CREATE PUBLICATION rivermeet_shop FOR TABLES IN SCHEMA public", [f"SET ({VIA_ROOT})", "ADD TABLE public.p"]),
    ],
)
def test_a_publication_that_somebody_else_made(base: Base, user: str, publication: str, cure: list[str]) -> None:
    """The statements that fix it are named by each table's run and by the check, for all tables at once, and run."""
    base.do(T, U, *PARTS, publication, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}")
    three = nodes(base, "p", "t", "u")
    refused = [problem for node in three for problem in problems(base, node, user)]
    statements = [f"ALTER PUBLICATION rivermeet_shop {alteration}" for alteration in cure]
    assert refused and {problem.cure for problem in refused} == {tuple(statements)}
    assert all(str(problem).endswith("; ".join(statements)) for problem in refused)
    with pytest.raises(PostgresRefusedError, match="ALTER PUBLICATION rivermeet_shop"):
        next(
            node
            for node in three
            if problems(base, node, user) and not base.run(node, slot=step_of(base, node, user).slot)
        )
    base.do(*statements)
    assert not [problem for node in three for problem in problems(base, node, user)]
    assert not base.slots()
    handled(
        "PostgreSQL",
        "a publication made by somebody else: FOR ALL TABLES, of partitions, without deletes, with a filter",
        "refused with the ALTER PUBLICATION, by `check` and by the run",
    )


def test_a_partition_whose_whole_is_published(base: Base) -> None:
    base.do(*PARTS, f"CREATE PUBLICATION rivermeet_shop FOR TABLE p WITH ({VIA_ROOT})")
    (part,) = nodes(base, "p1")
    assert "has its changes as those of the whole" in str(problems(base, part)[0])
    base.do("DROP PUBLICATION rivermeet_shop")
    whole, part = nodes(base, "p", "p1")
    assert not problems(base, whole) and "is a partition of public.p" in str(problems(base, part)[0])
    handled("PostgreSQL", "a partition declared beside its table", "refused: the log has its rows as the table's")


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("CREATE VIEW t WITH (security_barrier) AS SELECT 1 AS id, 2 AS n", "is a view"),
        ("CREATE MATERIALIZED VIEW t AS SELECT 1 AS id, 2 AS n", "is a materialized view"),
        (
            "CREATE EXTENSION file_fdw; CREATE SERVER f FOREIGN DATA WRAPPER file_fdw; "
            "CREATE FOREIGN TABLE t (id int, n int) SERVER f OPTIONS (filename '/dev/null')",
            "is a foreign table",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, n int GENERATED ALWAYS AS (2 * id) STORED)",
            "no column 'n', or computes",
        ),
    ],
)
def test_what_the_log_does_not_have(base: Base, made: str, says: str) -> None:
    try:
        base.do(*made.split("; "))
    except Exception as error:
        if "file_fdw" in made and "extension" in str(error):
            pytest.skip("may be skipped: PostgreSQL's contrib modules are not installed")
        raise
    (node,) = nodes(base, "t")
    assert says in str(problems(base, node)[0])
    handled("PostgreSQL", "views, foreign tables and generated columns named as a source", "refused: no log has them")


@pytest.mark.parametrize(
    ("security", "refused"),
    [
        (("ENABLE",), True),
        (("ENABLE", "POLICY few FOR SELECT USING (id > 1)"), True),
        (("ENABLE", "POLICY every FOR ALL USING (true)"), False),
        (("ENABLE", "POLICY every FOR SELECT TO {user} USING (true)"), False),
        (("ENABLE", "POLICY every FOR SELECT TO postgres USING (true)"), True),
        (("ENABLE", "POLICY every FOR INSERT WITH CHECK (true)"), True),
        (("ENABLE", "POLICY every USING (true)", "POLICY few AS RESTRICTIVE USING (id > 1)"), True),
        (("ENABLE", "OWNER"), False),
        (("ENABLE", "OWNER", "FORCE"), True),
        (("OWNER", "FORCE"), False),
    ],
)
def test_row_level_security(base: Base, user: str, security: tuple[str, ...], refused: bool) -> None:
    base.do(T, f"GRANT SELECT ON t TO {user}", "CREATE PUBLICATION rivermeet_shop FOR TABLE t")
    for one in security:
        if one.startswith("POLICY"):
            name, _, rest = one.removeprefix("POLICY ").partition(" ")
            base.do(f"CREATE POLICY {name} ON t {rest.format(user=user)}")
        else:
            base.do(f"ALTER TABLE t {f'OWNER TO {user}' if one == 'OWNER' else f'{one} ROW LEVEL SECURITY'}")
    (node,) = nodes(base, "t")
    assert [problem.cure for problem in problems(base, node, user)] == [(f"ALTER ROLE {user} BYPASSRLS",)] * refused
    base.do(f"ALTER ROLE {user} BYPASSRLS")
    assert not problems(base, node, user)
    handled("PostgreSQL", "row level security that hides rows from the user", "refused, until the user sees them all")


def test_row_level_security_of_a_partition_hides_nothing(base: Base, user: str) -> None:
    """Its policies are asked where it is named itself; the log has its rows, and so has the table."""
    base.do(*PARTS, "INSERT INTO p VALUES (1, 1)", f"GRANT SELECT ON p TO {user}")
    base.do(
        "ALTER TABLE p1 ENABLE ROW LEVEL SECURITY", f"CREATE PUBLICATION rivermeet_shop FOR TABLE p WITH ({VIA_ROOT})"
    )
    (node,) = nodes(base, "p")
    slot = step_of(base, node, user).slot
    base.run(node, slot=slot)
    base.do("INSERT INTO p VALUES (2, 2)")
    base.run(node, slot=slot)
    base.same(node, "SELECT id, n FROM p")


def test_security_that_comes_while_a_table_is_read(base: Base, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base.do(
        T,
        "INSERT INTO t VALUES (1, 1)",
        f"GRANT SELECT ON t TO {user}",
        "CREATE PUBLICATION rivermeet_shop FOR TABLE t",
    )
    (node,) = nodes(base, "t")
    copied = PostgresStep._copy

    def hidden_first(step: PostgresStep, *given: Any) -> Any:
        base.do("ALTER TABLE t ENABLE ROW LEVEL SECURITY")
        return copied(step, *given)

    monkeypatch.setattr(PostgresStep, "_copy", hidden_first)
    with pytest.raises(EpochRefusedError, match="row level security"):
        base.run(node, slot=step_of(base, node, user).slot)
    assert not base.slots(), "no log is held for what nobody reads"


def test_rights_on_columns_are_enough(base: Base, user: str) -> None:
    base.do("CREATE TABLE t (id int PRIMARY KEY, n int, secret text)", "CREATE PUBLICATION rivermeet_shop FOR TABLE t")
    base.do(f"GRANT SELECT (id) ON t TO {user}")
    (node,) = nodes(base, "t")
    assert [problem.cure for problem in problems(base, node, user)] == [(f"GRANT SELECT ON public.t TO {user}",)]
    base.do(f"GRANT SELECT (n) ON t TO {user}")
    assert not problems(base, node, user)
    handled("PostgreSQL", "a user who may read some columns of a table", "read where they are those that are declared")


def test_the_identity_that_counts(base: Base) -> None:
    """That of each partition, not the table's; and of an index its key, not what it includes."""
    base.do(*PARTS, "CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)", "ALTER TABLE p REPLICA IDENTITY FULL")
    made = Pipeline("shop")
    node = made.table("p", base.table("p", SCHEMA, "n"))
    (problem,) = problems(base, node)
    assert problem.cure == tuple(f"ALTER TABLE public.{part} REPLICA IDENTITY FULL" for part in ("p1", "p2"))
    base.do(*problem.cure)
    assert not problems(base, node)
    base.do("CREATE TABLE i (id int, n int, PRIMARY KEY (id) INCLUDE (n))")
    (problem,) = problems(base, Pipeline("shop").table("i", base.table("i", SCHEMA, "n")))
    assert "would not have 'n' (it has id)" in str(problem)
    handled("PostgreSQL", "partitions with another replica identity than their table", "refused with the ALTER TABLE")


def test_what_inherits_is_no_part_and_check_says_so(base: Base, settings: Settings, tmp_path: Path) -> None:
    base.do(
        T,
        "CREATE TABLE heir (more int) INHERITS (t)",
        "INSERT INTO t VALUES (1, 1)",
        "INSERT INTO heir VALUES (2, 2, 2)",
    )
    (node,) = nodes(base, "t")
    base.run(node)
    base.do("UPDATE t SET n = n + 1")
    base.run(node)
    base.same(node, "SELECT id, n FROM ONLY t")
    with homed(node.pipeline, tmp_path / "home", settings, postgres=base.server.dsn) as home:
        (found,) = inspect_sources(home.project, home.pipeline)
        assert found.is_good and found.line.endswith("rows of what inherits from it are no part of it: public.heir")


def test_one_script_mends_it_all(base: Base, settings: Settings, tmp_path: Path) -> None:
    """What `check` prints runs as it is with psql; then the check finds nothing, and the run reads."""
    reader = f"It's \"{uuid4().hex[:8]}"
    quoted = '"' + reader.replace('"', '""') + '"'
    base.do(
        f"CREATE ROLE {quoted} LOGIN",
        'CREATE SCHEMA "App"',
        'CREATE TABLE "App"."Note" (id int PRIMARY KEY, n int)',
        'CREATE TABLE "App"."order" (id int, n int, UNIQUE (n))',
        'ALTER TABLE "App"."Note" ENABLE ROW LEVEL SECURITY',
        *PARTS,
        'INSERT INTO "App"."Note" VALUES (1, 1), (2, 2)',
    )
    made = Pipeline("shop")
    for name, table in (("notes", "App.Note"), ("orders", "App.order"), ("parts", "public.p")):
        made.table(name, Postgres(f"{base.name}.{table}", SCHEMA, "id"))
    dsn = base.server.dsn.replace("user=postgres", "user='{}'".format(reader.replace("'", "\\'")))
    assert dsn != base.server.dsn
    with homed(made, tmp_path / "home", settings, postgres=dsn) as home:
        found = list(inspect_sources(home.project, home.pipeline))
        assert not any(one.is_good for one in found)
        lines = "\n".join(script(found))
        connect, *statements = [line for line in lines.splitlines() if line and not line.startswith("--")]
        assert connect == f'\\connect "{base.name}"'
        assert sorted(statements) == sorted(
            [
                f"ALTER ROLE {quoted} REPLICATION;",
                f'GRANT USAGE ON SCHEMA "App" TO {quoted};',
                f'GRANT SELECT ON "App"."Note" TO {quoted};',
                f'GRANT SELECT ON "App"."order" TO {quoted};',
                f"GRANT SELECT ON public.p TO {quoted};",
                f"ALTER ROLE {quoted} BYPASSRLS;",
                'ALTER TABLE "App"."order" REPLICA IDENTITY FULL;',
                f'CREATE PUBLICATION rivermeet_shop FOR TABLE "App"."Note", "App"."order", public.p WITH ({VIA_ROOT});',
            ]
        )
        psql = [str(binaries() / "psql"), f"{base.server.dsn} dbname=postgres", "-v", "ON_ERROR_STOP=1", "-q"]
        subprocess.run(psql, input=lines, text=True, check=True)
        found = list(inspect_sources(home.project, home.pipeline))
        assert all(one.is_good for one in found), found
        assert not list(script(found)) and not base.slots()
        assert home.run(), home.said
    base.drop_slots()
    base.do(f"DROP OWNED BY {quoted}", f"DROP ROLE {quoted}")
    handled(
        "PostgreSQL",
        "rights, identities and a publication that are missing",
        "`check` prints one script that psql runs",
    )


def test_a_refusal_leaves_no_slot_behind(base: Base) -> None:
    base.do("CREATE TABLE t (id int PRIMARY KEY, n text)", "INSERT INTO t VALUES (1, 'x')", U)
    t, u = nodes(base, "t", "u")
    with pytest.raises(EpochRefusedError):
        base.run(t)
    assert not base.slots()
    base.run(u)
    with pytest.raises(EpochRefusedError):
        base.run(t)
    assert base.slots() == 1, "another source reads from it"
    base.do("UPDATE t SET n = '1'")
    base.run_all([t, u])
    assert base.folded(t) == [(1, 1)]
    handled("PostgreSQL", "a table whose first epoch is refused", "no slot is left to hold the log")


def test_a_slot_that_another_source_is_about_to_use_is_kept(base: Base) -> None:
    base.do(T, U)
    t, u = nodes(base, "t", "u")
    step = base.step(t)
    with step.database.open_connection() as connection:
        step.slot.snapshot(connection)
    step.give_up(lambda node: node.name == "u")
    assert base.slots() == 1
    base.step(u).give_up(lambda node: False)
    assert not base.slots()


def test_no_slot_is_free(base: Base) -> None:
    base.do(T)
    (node,) = nodes(base, "t")
    step = base.step(node)
    from rivermeet.infra.postgres.state import server_problems, server_state
    from rivermeet.infra.sources.postgres import problems as found

    with step.database.open_connection() as connection:
        server = server_state(connection)
        assert server.slots_used < server.slots and not list(server_problems(server))
        full = replace(server, slots_used=server.slots)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(found, "server_state", lambda _: full)
            (problem,) = step.problems(connection, None)
    assert problem.cure == (f"ALTER SYSTEM SET max_replication_slots = {server.slots + 2}",)
