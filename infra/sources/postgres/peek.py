"""Changes of a slot up to a position, without consuming them.

A peek returns whole transactions in the order of their commits, from the slot's position, and can be repeated. Only one
client can peek at a time; the server keeps the result for the cursor, so the lock is held only until it is available.
Held by ``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from rivermeet.infra.postgres.connection import Database, refusing
from rivermeet.infra.postgres.lsn import lsn_text
from rivermeet.infra.postgres.pgoutput import Begin, Truncate, decode_message
from rivermeet.infra.postgres.wal_range import WalRange
from rivermeet.infra.sources.postgres.slot import PipelineSlot
from rivermeet.pipelines import limits

if TYPE_CHECKING:
    import psycopg

_PEEK = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL, 'proto_version', '1',
                                                     'publication_names', %s)
"""

_TRUNCATES = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)
WHERE get_byte(data, 0) IN (66, 84)
"""


def peek_messages(database: Database, slot: PipelineSlot, planned: WalRange) -> Iterator[bytes]:
    """Messages of pgoutput up to the end of a range, and some from before its start."""
    assert planned.end is not None, "a snapshot is not peeked at"
    with (
        database.connect() as connection,
        refusing(),
        connection.transaction(),
        connection.cursor("peek", binary=True) as cursor,
    ):
        with slot.hold():
            cursor.execute(_PEEK, [planned.slot, lsn_text(planned.end), planned.publication])
            found = cursor.fetchmany(limits.PEEKED_CHANGES)
        while found:
            for (data,) in found:
                yield data
            found = cursor.fetchmany(limits.PEEKED_CHANGES)


def truncating(connection: psycopg.Connection[Any], read: WalRange) -> Collection[int]:
    """Transactions that truncated a table, among all that its slot still has; the caller holds the lock."""
    xid, found = 0, set[int]()
    for (data,) in connection.execute(_TRUNCATES, [read.slot, read.publication], binary=True):
        message = decode_message(data)
        if isinstance(message, Begin):
            xid = message.xid
        elif isinstance(message, Truncate) and read.relation in message.oids:
            found.add(xid)
    return found
