"""What the slot has up to a position, as it stands: peeked at, so that it is there for the next one who asks.

A peek gives whole transactions in the order of their commits, from where the slot stands, and the same again. One at a
time can peek; the server keeps the answer for the cursor, so that the lock is held until it is there, and no longer.
Held by ``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from rivermeet.infra.epochs.plan import WalRange
from rivermeet.infra.postgres.connection import Database, refusing
from rivermeet.infra.postgres.lsn import lsn_text
from rivermeet.infra.postgres.pgoutput import Begin, Truncate, decoded
from rivermeet.infra.sources.postgres.slot import PipelineSlot

if TYPE_CHECKING:
    import psycopg

_AT_ONCE = 5_000
_PEEK = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL, 'proto_version', '1',
                                                     'publication_names', %s)
"""

_TRUNCATES = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)
WHERE get_byte(data, 0) IN (66, 84)
"""


def peeked(database: Database, slot: PipelineSlot, planned: WalRange) -> Iterator[bytes]:
    """Messages of pgoutput up to the end of a range, and some from before its start."""
    assert planned.end is not None, "a snapshot is not peeked at"
    with (
        database.connect() as connection,
        refusing(),
        connection.transaction(),
        connection.cursor("peek", binary=True) as cursor,
    ):
        with slot.held():
            cursor.execute(_PEEK, [planned.slot, lsn_text(planned.end), planned.publication])
            found = cursor.fetchmany(_AT_ONCE)
        while found:
            for (data,) in found:
                yield data
            found = cursor.fetchmany(_AT_ONCE)


def truncating(connection: psycopg.Connection[Any], read: WalRange) -> Collection[int]:
    """Transactions that truncated a table, of all that its slot still has; to be called with the lock."""
    xid, found = 0, set[int]()
    for (data,) in connection.execute(_TRUNCATES, [read.slot, read.publication], binary=True):
        message = decoded(data)
        if isinstance(message, Begin):
            xid = message.xid
        elif isinstance(message, Truncate) and read.relation in message.oids:
            found.add(xid)
    return found
