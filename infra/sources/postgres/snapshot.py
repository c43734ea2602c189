"""A snapshot at a position of the log: it shows everything committed before, and changes come after.

    transaction 1 commits       in the snapshot
    the slot is created         position 900: the snapshot shows exactly what was committed before it
    transaction 2 commits       not in the snapshot; its changes are read from 900 on

It lasts as long as the connection that created it. The sources of a pipeline that are read for the first time in one
process share it, and so begin at one position; a later source gets a temporary slot, which the server
drops when the connection ends. Held by ``tests/infra/sources/postgres/test_slot.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rivermeet.infra.postgres.connection import Database, refusal, refuse_server_errors
from rivermeet.infra.postgres.lsn import lsn_number

if TYPE_CHECKING:
    import psycopg

_held: dict[str, Snapshot] = {}
"""Usable snapshots, by slot."""


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
    known = _held.get(slot)
    if known is not None and known.is_kept and known.lsn >= at_least:
        return known
    release(slot)
    keeper = database.connect(replication=True)
    name, kind = (slot, "") if new else (f"rivermeet_{uuid4().hex[:20]}", "TEMPORARY ")
    done = keeper.pgconn.exec_(f"CREATE_REPLICATION_SLOT {name} {kind}LOGICAL pgoutput (SNAPSHOT 'export')".encode())
    values = [done.get_value(0, at) for at in range(done.nfields)] if done.ntuples else []
    if len(values) < 3 or values[1] is None or values[2] is None:
        state = done.error_field(ord("C"))
        keeper.close()
        raise refusal(state.decode() if state else None, done.error_message.decode().partition("\n")[0])
    _held[slot] = Snapshot(values[2].decode(), lsn_number(values[1].decode()), database, keeper)
    return _held[slot]


def release(slot: str) -> None:
    """End the snapshot of a slot, which prevents the server from removing dead rows."""
    known = _held.pop(slot, None)
    if known is not None:
        known.keeper.close()
