"""How far a source is behind its table: in bytes of the log, and in seconds by the clock of the commits.

    read up to 900; the log ends at 1000; the first change of the pipeline's tables after 900 was committed 5 s ago

    behind       100 bytes, 5 s
    held back    what the slot keeps of the log for us, more than that where a transaction has been open for long

Without a change after 900 the source is 0 s behind, whatever else the log has. Held by
``tests/infra/sources/postgres/test_faults.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rivermeet.infra.epochs.plan import WalRange
from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.lsn import lsn_text
from rivermeet.infra.postgres.pgoutput import EPOCH_US
from rivermeet.infra.postgres.state import server_state, slot_state
from rivermeet.infra.sources.postgres.slot import PipelineSlot

_FIRST_UNREAD = """
SELECT min(('x' || encode(substring(data FROM 10 FOR 8), 'hex'))::bit(64)::bigint)
FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)
WHERE get_byte(data, 0) = 66 AND ('x' || encode(substring(data FROM 2 FOR 8), 'hex'))::bit(64)::bigint >= %s
"""


@dataclass(frozen=True)
class WalLag:
    """A source, and the slot that it shares.

    Attributes
    ----------
    read, end
        Positions in the log: up to where it was read, and where it ends.
    since_ms
        Since when the first change that was not read has been there; None where all were.
    held_back, left
        Bytes of the log that the slot keeps, and that it may keep until it is given up (None: any).
    """

    slot: str
    read: int
    end: int
    since_ms: int | None
    held_back: int
    left: int | None

    @property
    def behind(self) -> int:
        """Bytes of the log that were not read; 0 where there is nothing in them."""
        return 0 if self.since_ms is None else self.end - self.read

    @property
    def seconds(self) -> float:
        """Seconds since the first change that was not read was committed."""
        return (self.since_ms or 0) / 1000

    @property
    def shown(self) -> str:
        """All of it in words."""
        room = f", {self.left:,} more until it is given up" if self.left is not None else ""
        late = f"{self.behind:,} bytes and {self.seconds:,.1f} s behind" if self.since_ms is not None else "all of it"
        return f"read up to {lsn_text(self.read)}, {late}; slot {self.slot} holds back {self.held_back:,} bytes{room}"


def lag_of(database: Database, slot: PipelineSlot, found: WalRange) -> WalLag:
    """The lag of what was read last; asks the server."""
    with slot.held(), database.asked() as connection:
        server, state = server_state(connection), slot_state(connection, found.slot)
        first: int | None = None
        if state is not None and state.status != "lost":
            ((first,),) = connection.execute(_FIRST_UNREAD, [found.slot, found.publication, found.position]).fetchall()
        since = None if first is None else max(server.now_ms - (first + EPOCH_US) // 1000, 0)
        held = state.held_back if state is not None else 0
        return WalLag(found.slot, found.position, server.flushed, since, held, state.left if state else None)
