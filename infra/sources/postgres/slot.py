"""The slot that all sources of a pipeline share, and the position at which the epochs of all of them end.

    orders at 900, customers at 900, the log at 1000       the first to plan fixes a cut at 1000, if anything changed
    orders at 1000, customers at 900                       customers goes to 1000; orders waits, and fixes no new cut
    both at 1000                                           the slot is advanced to 1000, which frees the log before

So the tables of a pipeline are at one position of the log after each run of all of them, and joins see whole
transactions. The state of the slot is a line of the epoch log, written before the request to the server:

| line | left behind by a kill | the next run |
|---|---|---|
| ``creating`` | perhaps a slot, with a unique name | drops it, and creates another |
| ``standing``, its cut | a cut that some sources have planned | the others use it |
| ``standing``, advanced to | a slot that is not yet advanced | advances it |

A cut that was not planned for a minute is fixed again. Sources begin with a snapshot at a position of the log: it
shows everything committed before, and changes come after.

    transaction 1 commits       in the snapshot
    the slot is created         position 900: the snapshot shows exactly what was committed before it
    transaction 2 commits       not in the snapshot; its changes are read from 900 on

It lasts as long as the connection that created it. The sources of a pipeline that are read for the first time in one
process share it, and so begin at one position; a later source gets a temporary slot, which the server
drops when the connection ends. Held by ``tests/infra/sources/postgres/test_slot.py`` and
``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from filelock import FileLock
from pydantic import BaseModel, ConfigDict

from rivermeet.infra import crash
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.postgres.connection import Database, refusal, refuse_server_errors
from rivermeet.infra.postgres.pgoutput import Begin, Truncate, decode_message
from rivermeet.infra.postgres.refusals import PostgresRefusedError, SlotLostError
from rivermeet.infra.postgres.state import ServerState, server_state, slot_problems, slot_state
from rivermeet.infra.postgres.wal_range import WalRange, lsn_number, lsn_text
from rivermeet.pipelines import limits

if TYPE_CHECKING:
    import psycopg


_NEWS = """
SELECT EXISTS (SELECT FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s, 'proto_version', '1',
               'publication_names', %s) WHERE get_byte(data, 0) IN (68, 73, 84, 85))
"""


_PEEK = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL, 'proto_version', '1',
                                                     'publication_names', %s)
"""

_TRUNCATES = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)
WHERE get_byte(data, 0) IN (66, 84)
"""


class SlotLine(BaseModel):
    """The state of the slot; positions are LSNs as numbers, ``at`` the server's clock when the cut was fixed (ms).

    ``advanced`` is the position to which the slot was advanced, or is about to be; changes since ``kept`` are still
    available, because there are none of the pipeline's tables in between.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: Literal["creating", "standing"]
    slot: str
    publication: str
    system: str
    timeline: int
    cut: int = 0
    at: int = 0
    advanced: int = 0
    kept: int = 0


@dataclass(frozen=True)
class PipelineSlot:
    """The slot of a pipeline in one database; only one process plans, or reads from it, at a time, by its ``lock``."""

    database: Database
    log: EpochLog
    lock: str
    pipeline: str

    @property
    def publication(self) -> str:
        """Name of the publication."""
        # The maximum length of names in PostgreSQL.
        return f"rivermeet_{self.pipeline.lower()}"[:63]

    def hold(self) -> FileLock:
        """The lock as a context manager, reentrant within a thread."""
        return FileLock(self.lock, is_singleton=True)

    def line(self) -> SlotLine | None:
        """The state; None if no slot was ever created."""
        lines = self.log.lines(self._node, "slot")
        return SlotLine.model_validate_json(lines[max(lines)]) if lines else None

    def find_existing(self) -> SlotLine:
        """The state of the existing slot; SlotLostError if there is none."""
        found = self.line()
        if found is None or found.state != "standing":
            says = f"pipeline '{self.pipeline}' has no slot in database '{self.database.name}'"
            raise SlotLostError(says, pipeline=self.pipeline, database=self.database.name)
        return found

    def problems(self, connection: psycopg.Connection[Any], server: ServerState) -> Iterator[PostgresRefusedError]:
        """Problems of the slot, if there is one."""
        line = self.line()
        if line is not None and line.state == "standing":
            found = slot_state(connection, line.slot)
            yield from slot_problems(line.slot, found, line.advanced, server, (line.system, line.timeline))

    def peek(self, planned: WalRange) -> Iterator[bytes]:
        """Messages of pgoutput up to the end of a range, and some from before its start.

        A peek returns whole transactions in the order of their commits, and can be repeated. Only one client can peek
        at a time; the server keeps the result for the cursor, so the lock is held only until it is available.
        """
        assert planned.end is not None, "a snapshot is not peeked at"
        with (
            self.database.connect() as connection,
            refuse_server_errors(),
            connection.transaction(),
            connection.cursor("peek", binary=True) as cursor,
        ):
            with self.hold():
                cursor.execute(_PEEK, [planned.slot, lsn_text(planned.end), planned.publication])
                found = cursor.fetchmany(limits.PEEKED_CHANGES)
            while found:
                for (data,) in found:
                    yield data
                found = cursor.fetchmany(limits.PEEKED_CHANGES)

    def snapshot(self, connection: psycopg.Connection[Any], at_least: int = 0) -> tuple[SlotLine, Snapshot]:
        """A snapshot after which the changes of the slot follow; the slot is created if no usable one exists.

        ``at_least`` is the minimum position: where the table was published.
        """
        # Under the lock: of two sources that are read again, the second one uses the slot that the first one made
        # (test_two_that_find_it_lost_share_the_next).
        with self.hold():
            found, server = self.line(), server_state(connection)
            if found is None or found.state != "standing" or any(True for _ in self.problems(connection, server)):
                return self._make(connection, found, server)
            return found, export_snapshot(self.database, found.slot, at_least=max(found.cut, at_least))

    def _make(
        self, connection: psycopg.Connection[Any], before: SlotLine | None, server: ServerState
    ) -> tuple[SlotLine, Snapshot]:
        if before is not None:
            drop(connection, before.slot)
        # The name is unique among all homes and times.
        name = f"rivermeet_{self.pipeline.lower()}"[:50] + f"_{uuid4().hex[:12]}"
        line = SlotLine(
            state="creating",
            slot=name,
            publication=self.publication,
            system=server.system,
            timeline=server.timeline,
        )
        self._write(line)
        crash.crash_at("slot-named", self.pipeline)
        snapshot = export_snapshot(self.database, name, new=True)
        crash.crash_at("slot-made", self.pipeline)
        line = line.model_copy(
            update={
                "state": "standing",
                "cut": snapshot.lsn,
                "at": server.now_ms,
                "advanced": snapshot.lsn,
                "kept": snapshot.lsn,
            }
        )
        self._write(line)
        return line, snapshot

    def give_up(self, connection: psycopg.Connection[Any], line: SlotLine) -> None:
        """Drop the slot, from which nothing was read; the caller holds the lock."""
        release(self.database, line.slot)
        self._write(line.model_copy(update={"state": "creating"}))
        drop(connection, line.slot)

    def next_cut(
        self, connection: psycopg.Connection[Any], node: str, positions: Mapping[str, int], server: ServerState
    ) -> SlotLine | None:
        """The end of the next epoch of a source; None if nothing is new, or if other sources have to catch up.

        ``positions`` are those of the sources of the pipeline; ``node`` is one of them.
        """
        with self.hold():
            line, own = self.find_existing(), positions[node]
            if line.cut > own and not self._is_unused(line, positions, server):
                return line
            if line.cut <= own and min(positions.values()) < line.cut:
                return None
            low = min(positions.values())
            line = self._advance(connection, line, low, kept=low)
            if server.flushed <= own:
                return None
            if not self._has_news(connection, line, server.flushed):
                if server.flushed - line.advanced > limits.IDLE_LOG_BYTES:
                    self._advance(connection, line, server.flushed, kept=line.kept)
                return None
            cut = line.model_copy(update={"cut": server.flushed, "at": server.now_ms})
            self._write(cut)
            return cut

    def _is_unused(self, line: SlotLine, positions: Mapping[str, int], server: ServerState) -> bool:
        if server.now_ms - line.at < limits.UNUSED_CUT_MS or max(positions.values()) >= line.cut:
            return False
        open_plans = (plan for node in positions for plan in self.log.open_plans(node, 0).values())
        return not any(isinstance(plan.reads, WalRange) and plan.reads.end == line.cut for plan in open_plans)

    def _advance(self, connection: psycopg.Connection[Any], line: SlotLine, to: int, kept: int) -> SlotLine:
        """Free the log before a position that all sources have committed."""
        if to <= line.advanced:
            return line
        line = line.model_copy(update={"advanced": to, "kept": kept})
        self._write(line)
        crash.crash_at("advanced", self.pipeline)
        connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [line.slot, lsn_text(to)])
        return line

    def _has_news(self, connection: psycopg.Connection[Any], line: SlotLine, upto: int) -> bool:
        # Before version 15, transactions of other tables come too, without changes: their begin proves nothing.
        most = 1 if connection.info.server_version >= 150_000 else None
        found = connection.execute(_NEWS, [line.slot, lsn_text(upto), most, line.publication]).fetchone()
        return found is not None and found[0]

    def _write(self, line: SlotLine) -> None:
        number = max(self.log.lines(self._node, "slot"), default=0) + 1
        self.log.write(self._node, 1, number, "slot", line.model_dump_json())

    @property
    def _node(self) -> str:
        # Not a valid name of a node.
        return f"postgres {self.database.name}"


def drop(connection: psycopg.Connection[Any], slot: str) -> None:
    """Drop a slot if it exists."""
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [slot]
    )


def find_truncating(connection: psycopg.Connection[Any], planned: WalRange) -> Collection[int]:
    """Transactions that truncated a table, among all that its slot still has; the caller holds the lock."""
    xid, found = 0, set[int]()
    for (data,) in connection.execute(_TRUNCATES, [planned.slot, planned.publication], binary=True):
        message = decode_message(data)
        if isinstance(message, Begin):
            xid = message.xid
        elif isinstance(message, Truncate) and planned.relation in message.oids:
            found.add(xid)
    return found


_held: dict[tuple[Database, str], Snapshot] = {}
"""Usable snapshots, by database and slot."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot, its position, and the connection that keeps it."""

    name: str
    lsn: int
    database: Database
    keeper: psycopg.Connection[Any] = field(repr=False)

    @property
    def is_kept(self) -> bool:
        """Whether it can still be used."""
        return not self.keeper.closed and not self.keeper.broken

    @contextmanager
    def open_connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection that sees the database as of the snapshot."""
        with self.database.connect() as connection, refuse_server_errors():
            from psycopg import sql

            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self.name)))
            yield connection
            connection.execute("COMMIT")


def export_snapshot(database: Database, slot: str, new: bool = False, at_least: int = 0) -> Snapshot:
    """A snapshot for a pipeline's slot, which is created with it if it is ``new``; ``at_least`` at that position."""
    known = _held.get((database, slot))
    if known is not None and known.is_kept and known.lsn >= at_least:
        return known
    release(database, slot)
    keeper = database.connect(replication=True)
    name, kind = (slot, "") if new else (f"rivermeet_{uuid4().hex[:20]}", "TEMPORARY ")
    done = keeper.pgconn.exec_(f"CREATE_REPLICATION_SLOT {name} {kind}LOGICAL pgoutput (SNAPSHOT 'export')".encode())
    values = [done.get_value(0, at) for at in range(done.nfields)] if done.ntuples else []
    if len(values) < 3 or values[1] is None or values[2] is None:
        state = done.error_field(ord("C"))
        keeper.close()
        raise refusal(state.decode() if state else None, done.error_message.decode().partition("\n")[0])
    found = Snapshot(values[2].decode(), lsn_number(values[1].decode()), database, keeper)
    _held[database, slot] = found
    return found


def release(database: Database, slot: str) -> None:
    """End the snapshot of a slot, which prevents the server from removing dead rows."""
    known = _held.pop((database, slot), None)
    if known is not None:
        known.keeper.close()
