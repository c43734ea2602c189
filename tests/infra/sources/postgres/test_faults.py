"""What keeps a table from being read: refused with the problem and its remedy, and nothing is lost in between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
import pytest

from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.refusals import (
    ColumnMissingError,
    IdentityError,
    LogPositionLostError,
    NotPublishedError,
    NotRepeatableError,
    OtherServerError,
    PostgresRefusedError,
    PostgresTableMissingError,
    RightMissingError,
    ServerUnavailableError,
    ServerUnfitError,
    SlotBusyError,
    SlotLostError,
)
from rivermeet.infra.sources.postgres.problems import lag_of
from rivermeet.pipelines import Pipeline, Table, limits
from tests.infra.sources.postgres.base import Base
from tests.reliability import survived
from tests.servers.postgres import running

pytestmark = pytest.mark.slow
SCHEMA = {"id": "INT", "n": "INT"}


def made(base: Base, *before: str, **options: Any) -> Table:
    base.do("CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)", *before)
    return Pipeline("shop").table("t", base.table("t", SCHEMA), **options)


def refused(base: Base, node: Table, kind: type[PostgresRefusedError], says: str) -> None:
    """Two runs are refused, and so says the check."""
    for _ in range(2):
        with pytest.raises(kind, match=says) as found:
            base.run(node)
        assert "source 'shop.t'" in str(found.value)
    step = base.step(node)
    with step.database.open_connection() as connection:
        problems = list(step.problems(connection, step.position(step.note())))
    assert kind in [type(problem) for problem in problems]


@pytest.mark.prove
def test_a_slot_that_somebody_else_moved_on(base: Base) -> None:
    """Two homes on one slot: the second finds that it lacks what the first has taken."""
    node = made(base)
    base.run(node)
    base.do("UPDATE t SET n = 2")
    base.ask("SELECT pg_replication_slot_advance(slot_name, pg_current_wal_flush_lsn()) FROM pg_replication_slots")
    refused(base, node, SlotLostError, "somebody else has moved slot")
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")
    survived("a slot moved on by somebody else", "refused; `resnapshot` reads the whole table into a new incarnation")


@pytest.mark.prove
def test_each_home_has_a_slot_of_its_own(base: Base) -> None:
    node = made(base)
    base.run(node)
    other = replace(base.world, root=base.world.root / "other")
    beside = Base.__new__(Base)
    beside.world, beside.server, beside.name = other, base.server, base.name
    beside.run(node)
    assert base.slots() == 2
    base.do("UPDATE t SET n = 2")
    base.run(node)
    base.do("UPDATE t SET n = 3")
    base.run(node)
    beside.run(node)
    base.same(node, "SELECT id, n FROM t")
    beside.same(node, "SELECT id, n FROM t")


def test_a_table_that_is_missing_or_another(base: Base) -> None:
    node = Pipeline("shop").table("t", base.table("t", SCHEMA))
    refused(base, node, PostgresTableMissingError, "there is no table")
    base.do("CREATE VIEW t AS SELECT 1 AS id, 2 AS n")
    refused(base, node, PostgresTableMissingError, "is a view, and the log has no changes of it")
    base.do("DROP VIEW t", "CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)")
    base.run(node)
    base.do("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (2, 2)")
    refused(base, node, PostgresTableMissingError, "dropped and recreated.*resnapshot")
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")


@pytest.mark.prove
def test_a_column_that_is_missing(base: Base) -> None:
    """One that comes is read once it is declared; what was before has NULL there until the table is read again."""
    node = made(base)
    base.run(node)
    base.do("ALTER TABLE t ADD m int", "UPDATE t SET n = 5, m = 7", "INSERT INTO t VALUES (2, 2, 3)")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    wider = Pipeline("shop").table("t", base.table("t", {**SCHEMA, "m": "INT"}))
    base.do("UPDATE t SET m = 8 WHERE id = 2")
    base.run(wider)
    assert base.folded(wider) == [(1, 5, None), (2, 2, 8)]
    base.resnapshot(wider)
    base.same(wider, "SELECT id, n, m FROM t")
    base.do("ALTER TABLE t DROP m")
    with pytest.raises(ColumnMissingError, match="has no column 'm'"):
        base.run(wider)


@pytest.mark.parametrize("identity", ["NOTHING", "USING INDEX other"])
def test_an_identity_that_does_not_say_which_row(base: Base, identity: str) -> None:
    node = made(base, "ALTER TABLE t ALTER n SET NOT NULL", "CREATE UNIQUE INDEX other ON t (n)")
    base.do(f"ALTER TABLE t REPLICA IDENTITY {identity}")
    refused(base, node, IdentityError, "the log would not have 'id'.*REPLICA IDENTITY FULL")
    base.do("ALTER TABLE t REPLICA IDENTITY FULL")
    base.run(node)
    base.do("UPDATE t SET id = 2, n = 3")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")


def test_an_index_as_identity(base: Base) -> None:
    base.do("CREATE TABLE t (id int, code text NOT NULL, n int)", "CREATE UNIQUE INDEX codes ON t (code)")
    base.do("ALTER TABLE t REPLICA IDENTITY USING INDEX codes", "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    node = Pipeline("shop").table("t", base.table("t", {"code": "STRING", "id": "INT", "n": "INT"}, "code"))
    base.run(node)
    base.do("UPDATE t SET code = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, 'b', 3)")
    base.run(node)
    base.same(node, "SELECT code, id, n FROM t")


@pytest.mark.prove
def test_a_table_that_is_not_published(base: Base) -> None:
    node = made(base)
    base.run(node)
    base.do("ALTER PUBLICATION rivermeet_shop DROP TABLE t", "UPDATE t SET n = 2")
    refused(base, node, NotPublishedError, "lacks .*ALTER PUBLICATION rivermeet_shop ADD TABLE public.t")
    base.do("ALTER PUBLICATION rivermeet_shop ADD TABLE t", "UPDATE t SET n = 3")
    refused(base, node, NotPublishedError, "taken out of publication rivermeet_shop and put in again")
    base.resnapshot(node)
    base.same(node, "SELECT id, n FROM t")
    base.do("ALTER PUBLICATION rivermeet_shop SET (publish = 'insert')")
    refused(base, node, NotPublishedError, "leaves out changes: ALTER PUBLICATION")


def test_rights(base: Base) -> None:
    """Who may not publish sees what the owner has to run; with that done, SELECT and REPLICATION are enough."""
    user = f"reader_{base.name}"
    node = made(base, f"CREATE ROLE {user} LOGIN")
    base.do("CREATE TABLE u (id int PRIMARY KEY)")
    reader = replace(
        base.step(node).slot, database=Database(base.server.dsn.replace("=postgres", f"={user}"), base.name)
    )
    with pytest.raises(RightMissingError, match=f"ALTER ROLE {user} REPLICATION"):
        base.run(node, slot=reader)
    base.do(f"ALTER ROLE {user} REPLICATION")
    with pytest.raises(RightMissingError, match=r"GRANT SELECT ON public\.t"):
        base.run(node, slot=reader)
    base.do(f"GRANT SELECT ON t TO {user}")
    with pytest.raises(
        NotPublishedError, match=r"may not make it: CREATE PUBLICATION rivermeet_shop FOR TABLE public\.t"
    ):
        base.run(node, slot=reader)
    base.do("CREATE PUBLICATION rivermeet_shop FOR TABLE t")
    assert base.run(node, slot=reader) is not None
    base.do("UPDATE t SET n = 2")
    assert base.run(node, slot=reader) is not None
    base.same(node, "SELECT id, n FROM t")
    base.drop_slots()
    base.do(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def test_a_transaction_that_stays_open(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new slot waits for it, a minute at most, and is not left behind."""
    monkeypatch.setitem(
        __import__("rivermeet.infra.postgres.connection", fromlist=["_STYLE"])._STYLE, "lock_timeout", "500"
    )
    node = made(base)
    with base.connect() as other, other.transaction():
        other.execute("INSERT INTO t VALUES (2, 2)")
        with pytest.raises(SlotBusyError, match="end it, and run again"):
            base.run(node)
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    assert base.slots() == 1


@pytest.mark.prove
def test_dead_letters_are_not_retried(base: Base) -> None:
    base.do("CREATE TABLE t (id int PRIMARY KEY, n text)", "INSERT INTO t VALUES (1, 'x'), (2, '2')")
    node = Pipeline("shop").table("t", base.table("t", SCHEMA), max_bad_share=1)
    base.run(node)
    with pytest.raises(NotRepeatableError, match="`rivermeet resnapshot shop t`"):
        base.run(node, retry=True)
    base.do("UPDATE t SET n = '1' WHERE id = 1")
    base.resnapshot(node)
    assert base.folded(node) == [(1, 1), (2, 2)]
    assert base.run(node, retry=True) is None


def test_an_epoch_log_that_was_lost(base: Base) -> None:
    node = made(base)
    base.run(node)
    step = base.step(node)
    note = step.note()
    assert note is not None
    with pytest.raises(LogPositionLostError, match="does not say up to where epoch 7 read"):
        step.position(note.model_copy(update={"epoch": 7}))


def test_lag(base: Base) -> None:
    node = made(base)
    base.do("CREATE TABLE other (id int)")
    base.run(node)
    step = base.step(node)
    read = step.position(step.note())
    assert read is not None
    base.do("INSERT INTO other SELECT generate_series(1, 1000)")
    lag = lag_of(step.database, step.slot, read)
    assert (lag.behind, lag.seconds, lag.left) == (0, 0, None) and lag.end > lag.read and lag.held_back > 0
    base.do("UPDATE t SET n = 2", "SELECT pg_sleep(0.3)")
    lag = lag_of(step.database, step.slot, read)
    assert lag.behind > 1000 and 0.3 <= lag.seconds < 60
    base.run(node)
    base.run(node)
    read = step.position(step.note())
    assert read is not None and lag_of(step.database, step.slot, read).behind == 0


def test_an_idle_table_holds_back_no_log(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDLE_LOG_BYTES", 10_000)
    node = made(base)
    base.do("CREATE TABLE other (id int, body text)")
    base.run(node)
    before = base.slot(node)
    base.do("INSERT INTO other SELECT generate_series(1, 1000), 'x'")
    assert base.run(node) is None
    after = base.slot(node)
    assert before is not None and after is not None and after.confirmed > before.confirmed + 10_000
    base.do("UPDATE t SET n = 2")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")


def test_another_server(base: Base) -> None:
    """Also one that was restored: the log from then on is not the one that was read."""
    node = made(base)
    base.run(node)
    with running() as other:
        with psycopg.connect(f"{other.dsn} dbname=postgres", autocommit=True) as client:
            client.execute(f"CREATE DATABASE {base.name}")  # pyright: ignore[reportArgumentType, reportCallIssue]
        moved = replace(base.step(node).slot, database=Database(other.dsn, base.name))
        with pytest.raises(OtherServerError, match=r"is another server.*resnapshot"):
            base.run(node, slot=moved)


@pytest.mark.parametrize("level", ["replica"])
def test_a_server_that_does_not_decode(base: Base, level: str) -> None:
    node = made(base)
    with running(wal_level=level) as other:
        with psycopg.connect(f"{other.dsn} dbname=postgres", autocommit=True) as client:
            client.execute(f"CREATE DATABASE {base.name}")  # pyright: ignore[reportArgumentType, reportCallIssue]
        moved = replace(base.step(node).slot, database=Database(other.dsn, base.name))
        with pytest.raises(ServerUnfitError, match=r"wal_level is replica.*ALTER SYSTEM SET"):
            base.run(node, slot=moved)


def test_a_server_that_ends_in_between(base: Base) -> None:
    """What was planned stands, and is read by the next run."""
    with running() as server:
        own = Base(base.world, server)
        node = made(own)
        own.run(node)
        own.do("UPDATE t SET n = 2", "INSERT INTO t VALUES (2, 2)")
        server.stop("immediate")
        with pytest.raises(ServerUnavailableError, match="RIVERMEET_POSTGRES names does not let us in") as refused:
            own.run(node)
        assert "127.0.0.1" not in str(refused.value)
        server.start()
        del own.client
        own.run(node)
        own.same(node, "SELECT id, n FROM t")
    survived("a database killed and started again", "what was planned is read by the next run")


@pytest.mark.prove
def test_the_limit_of_the_log_is_reached(base: Base) -> None:
    with running(max_slot_wal_keep_size="16MB", max_wal_size="32MB", min_wal_size="32MB") as server:
        own = Base(base.world, server)
        node = made(own)
        own.run(node)
        own.do("CREATE TABLE big (body text)")
        for _ in range(5):
            own.do("INSERT INTO big SELECT repeat('x', 1000) FROM generate_series(1, 20000)", "SELECT pg_switch_wal()")
        own.do("CHECKPOINT")
        refused(own, node, SlotLostError, "was given up: it held back more than max_slot_wal_keep_size")
        own.do("UPDATE t SET n = 2")
        own.resnapshot(node)
        own.same(node, "SELECT id, n FROM t")
    survived("max_slot_wal_keep_size reached", "refused; `resnapshot` reads the whole table into a new incarnation")


def test_a_publication_that_leaves_out_rows(base: Base) -> None:
    node = made(base, "CREATE PUBLICATION rivermeet_shop FOR TABLE t WHERE (id > 1)")
    with pytest.raises(NotPublishedError, match="leaves out rows or columns"):
        base.run(node)
    base.do("ALTER PUBLICATION rivermeet_shop SET TABLE t")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")


@pytest.mark.prove
def test_a_source_that_was_not_declared_for_a_while(base: Base) -> None:
    """The others went on without it, and took the log with them."""
    base.do("CREATE TABLE u (id int PRIMARY KEY, n int)")
    node = made(base)
    both = Pipeline("shop")
    nodes = [both.table(name, base.table(name, SCHEMA)) for name in ("t", "u")]
    base.run_all(nodes)
    base.do("INSERT INTO u VALUES (1, 1)", "UPDATE t SET n = 2")
    base.run(node)
    base.do("UPDATE t SET n = 3")
    base.run(node)
    with pytest.raises(SlotLostError, match=r"other sources went on while it was not declared.*resnapshot shop u"):
        base.run(nodes[1])
    base.resnapshot(nodes[1])
    base.run_all(nodes)
    base.same(nodes[0], "SELECT id, n FROM t")
    base.same(nodes[1], "SELECT id, n FROM u")


def test_a_table_in_partitions(base: Base) -> None:
    base.do(
        "CREATE TABLE t (id int PRIMARY KEY, n int) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t VALUES (1, 1), (11, 11)",
    )
    node = Pipeline("shop").table("t", base.table("t", SCHEMA))
    base.run(node)
    base.do("UPDATE t SET id = 12 WHERE id = 1", "UPDATE t SET n = 5", "INSERT INTO t VALUES (2, 2)")
    base.run(node)
    base.same(node, "SELECT id, n FROM t")
    base.do("TRUNCATE t")
    base.run(node)
    assert base.folded(node) == []
