"""The slot that sources share: where their epochs end, and what of the log is given up; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest

from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.refusals import SlotLostError
from rivermeet.infra.postgres.state import server_state, slot_state
from rivermeet.infra.postgres.wal_range import WalRange, lsn_text
from rivermeet.infra.sources.postgres.slot import PipelineSlot, SlotLine, export_snapshot, release
from rivermeet.pipelines import limits
from tests.servers.postgres import PostgresServer


class One:
    """A pipeline's slot in a database of its own."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self.database = Database(server.dsn, f"slots_{uuid4().hex[:8]}")
        with psycopg.connect(f"{server.dsn} dbname=postgres", autocommit=True) as client:
            client.execute(cast(Any, f"CREATE DATABASE {self.database.name}"))
        self.client = self.database.connect()
        self.client.execute("CREATE TABLE t (id int)")
        self.client.execute("CREATE PUBLICATION rivermeet_shop FOR TABLE t")
        log = EpochLog(str(folder / "epochs"), str(folder / "log.lock"))
        self.slot = PipelineSlot(self.database, log, str(folder / "slot.lock"), "shop")

    def write(self) -> None:
        self.client.execute("INSERT INTO t VALUES (1)")

    def cut(self, node: str, later_ms: int = 0, **positions: int) -> int | None:
        server = server_state(self.client)
        server = type(server)(**{**vars(server), "now_ms": server.now_ms + later_ms})
        found = self.slot.next_cut(self.client, node, positions, server)
        return None if found is None else found.cut

    def start(self) -> int:
        line, snapshot = self.slot.snapshot(self.client)
        assert line.cut == line.advanced == snapshot.lsn
        return snapshot.lsn

    def confirmed(self) -> int:
        found = slot_state(self.client, self.slot.find_existing().slot)
        assert found is not None
        return found.confirmed


@pytest.fixture
def one(postgres: PostgresServer, tmp_path: Path) -> Iterator[One]:
    made = One(postgres, tmp_path)
    yield made
    line = made.slot.line()
    if line is not None:
        release(made.database, line.slot)
        # A temporary one ends with its connection, which the server notices in its own time.
        made.client.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database() AND NOT temporary"
        )
    made.client.close()


def test_slots_of_one_name_in_two_databases_have_a_snapshot_each(postgres: PostgresServer, tmp_path: Path) -> None:
    one, other = One(postgres, tmp_path / "one"), One(postgres, tmp_path / "other")
    one.write()
    try:
        first, second = (export_snapshot(each.database, "shop") for each in (one, other))
        assert first.is_kept and second.is_kept
        assert export_snapshot(one.database, "shop") is first
        for snapshot, rows in ((first, 1), (second, 0)):
            with snapshot.open_connection() as connection:
                assert connection.execute("SELECT count(*) FROM t").fetchone() == (rows,)
        release(other.database, "shop")
        assert first.is_kept and not second.is_kept
    finally:
        for each in (one, other):
            release(each.database, "shop")
            each.client.close()


def test_all_sources_end_at_one_cut(one: One) -> None:
    start = one.start()
    assert one.cut("a", a=start, b=start) is None, "nothing has changed"
    one.write()
    cut = one.cut("a", a=start, b=start)
    assert cut is not None and cut > start
    one.write()
    assert one.cut("b", a=start, b=start) == cut, "the second one takes it"
    assert one.cut("a", a=cut, b=start) is None, "it waits for the other"
    assert one.confirmed() == start
    second = one.cut("a", a=cut, b=cut)
    assert second is not None and second > cut
    assert one.confirmed() == cut, "what all have committed is given up"


def test_a_cut_that_nobody_planned_is_fixed_again(one: One) -> None:
    start = one.start()
    one.write()
    cut = one.cut("a", a=start)
    one.write()
    assert one.cut("a", a=start) == cut
    plan = EpochPlan(pipeline="shop", node="a", incarnation=1, epoch=1, reads=WalRange(table="t", start=start, end=cut))
    late = limits.UNUSED_CUT_MS + 1000
    one.slot.log.write("a", 1, 1, "plan", plan.model_dump_json())
    assert one.cut("a", late, a=start, b=start) == cut, "a plan has it"
    one.slot.log.write("a", 1, 1, "refused", "")
    newer = one.cut("a", late, a=start, b=start)
    assert newer is not None and cut is not None and newer > cut


def test_one_snapshot_for_all_that_begin_together(one: One) -> None:
    line, first = one.slot.snapshot(one.client)
    again, second = one.slot.snapshot(one.client)
    assert (again, second) == (line, first)
    one.write()
    with first.open_connection() as client:
        assert client.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    cut = one.cut("a", a=first.lsn)
    _, later = one.slot.snapshot(one.client)
    assert cut is not None and later.lsn >= cut, "an older one would put a table behind the others"
    with later.open_connection() as client:
        assert client.execute("SELECT count(*) FROM t").fetchall() == [(1,)]
    temporary = one.client.execute("SELECT count(*) FROM pg_replication_slots WHERE temporary").fetchall()
    assert temporary == [(1,)]
    release(one.database, line.slot)


def test_a_slot_that_was_being_made_is_dropped(one: One) -> None:
    name = f"rivermeet_shop_{uuid4().hex[:12]}"
    line = SlotLine(state="creating", slot=name, publication="rivermeet_shop", system="1", timeline=1)
    one.slot._write(line)
    one.client.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
    with pytest.raises(SlotLostError, match="pipeline 'shop' has no slot in database"):
        one.slot.find_existing()
    made, _ = one.slot.snapshot(one.client)
    assert made.slot != name and slot_state(one.client, name) is None


def test_two_that_find_it_lost_share_the_next(one: One) -> None:
    one.start()
    lost = one.slot.find_existing().slot
    one.client.execute("SELECT pg_drop_replication_slot(%s)", [lost])
    both_found_it_lost = Barrier(2)

    def begin() -> SlotLine:
        with one.database.connect() as client:
            assert any(True for _ in one.slot.problems(client, server_state(client)))
            both_found_it_lost.wait(30)
            return one.slot.snapshot(client)[0]

    with ThreadPoolExecutor(2) as pool:
        first, second = (task.result() for task in [pool.submit(begin), pool.submit(begin)])
    assert first == second == one.slot.find_existing() and first.slot != lost


def test_a_transaction_that_begins_before_the_cut_and_ends_after_it(one: One) -> None:
    """It counts by its commit, and is in one range or in the next, never in both or none."""
    start = one.start()
    with psycopg.connect(one.database.dsn, dbname=one.database.name) as other:
        other.execute("INSERT INTO t VALUES (7)")
        one.write()
        cut = one.cut("a", a=start)
        assert cut is not None
        other.commit()
    second = one.cut("a", a=cut)
    assert second is not None
    begins = one.client.execute(
        "SELECT ('x' || encode(substring(data FROM 2 FOR 8), 'hex'))::bit(64)::bigint "
        "FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL, 'proto_version', '1', "
        "'publication_names', 'rivermeet_shop') WHERE get_byte(data, 0) = 66",
        [one.slot.find_existing().slot, lsn_text(second)],
    ).fetchall()
    assert [cut <= lsn < second for (lsn,) in begins] == [True]
