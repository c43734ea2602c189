"""All problems of a source's table: of the server, the shared slot, the table and the publication; and its lag.

| the source | checked |
|---|---|
| was never read, or is to be read again | the server and the table; a slot that cannot be used is recreated |
| was read up to a position | all, and whether its slot has everything since |

The lag behind the table is in bytes of the log, and in seconds by the clock of the commits:

    read up to 900; the log ends at 1000; the first change of the pipeline's tables after 900 was committed 5 s ago

    behind       100 bytes, 5 s
    held back    the log that the slot retains: more than that if a transaction has been open for long

Without a change after 900 the source is 0 s behind, whatever else is in the log. Held by
``tests/infra/sources/postgres/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rivermeet.infra.postgres.catalog import Alterations, catalog, log_problems
from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.pgoutput import EPOCH_US
from rivermeet.infra.postgres.publication import publication
from rivermeet.infra.postgres.refusals import PostgresRefusedError, ServerUnfitError, SlotLostError
from rivermeet.infra.postgres.state import (
    server_problems,
    server_state,
    slot_state,
    table_problems,
    table_state,
)
from rivermeet.infra.postgres.wal_range import WalRange, lsn_text
from rivermeet.infra.sources.postgres.slot import PipelineSlot, find_truncating
from rivermeet.infra.sources.standing import Form
from rivermeet.pipelines import Postgres

if TYPE_CHECKING:
    import psycopg


def find_problems(
    connection: psycopg.Connection[Any],
    slot: PipelineSlot,
    reads: Postgres,
    before: WalRange | None,
    tables: Sequence[Postgres],
) -> Iterator[PostgresRefusedError]:
    """Problems of a table that was read up to ``before``, among the ``tables`` of its pipeline."""
    server, table = server_state(connection), table_state(connection, reads)
    yield from server_problems(server)
    if server.is_standby:
        # A standby cannot report a slot's state, which needs the end of the written log.
        return
    line = slot.line()
    if before is None:
        if line is None and server.slots_used >= server.slots:
            yield ServerUnfitError(
                f"all {server.slots} replication slots are taken: drop one that nobody needs, or have more, which "
                "takes a restart of the server",
                [f"ALTER SYSTEM SET max_replication_slots = {server.slots + 2}"],
                slots=server.slots,
            )
        yield from _explain_refused_connection(slot)
    else:
        if line is None or line.state != "standing" or before.slot != line.slot:
            yield SlotLostError(f"slot {before.slot} was given up, and with it the changes since", slot=before.slot)
        else:
            yield from slot.problems(connection, server)
            if before.position < line.kept:
                yield SlotLostError("other sources went on while it was not declared: the changes since are gone")
    yield from table_problems(reads, table, before, server.user)
    name = before.publication if before is not None else slot.publication
    yield from publication(connection, name, tables).problems(reads, before)
    if table is None:
        return
    now = catalog(connection, reads, name, table.oid)
    yield from log_problems(reads, now)
    if before is not None and before.known is not None and before.relation == table.oid:

        @cache
        def truncates() -> Collection[int]:
            with slot.hold():
                return find_truncating(connection, before)

        yield from Alterations(connection, reads, name, before.known, now, truncates).problems()


def _explain_refused_connection(slot: PipelineSlot) -> Iterator[PostgresRefusedError]:
    """Why the server accepts no connection that can create slots, for example because of a rule in pg_hba.conf."""
    try:
        slot.database.connect(replication=True).close()
    except PostgresRefusedError as refusal:
        yield refusal


COLUMNS: Sequence[tuple[str, Form]] = (
    ("read up to", "text"),
    ("bytes of the log", "number"),
    ("where the log ended at", "moment"),
    ("that is ago", "age"),
)
"""Columns of a table in the quality report."""
_FIRST_UNREAD = """
SELECT min(('x' || encode(substring(data FROM 10 FOR 8), 'hex'))::bit(64)::bigint)
FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)
WHERE get_byte(data, 0) = 66 AND ('x' || encode(substring(data FROM 2 FOR 8), 'hex'))::bit(64)::bigint >= %s
"""


@dataclass(frozen=True)
class WalLag:
    """A source, and the slot that it shares.

    ``read`` and ``end`` are positions in the log: of the last change read, and of the end. ``since_ms`` counts from the
    commit of the first unread change; None if all were read. ``held_back`` and ``left`` are the bytes of log that the
    slot retains, and that remain until it is invalidated (None: no limit).
    """

    slot: str
    read: int
    end: int
    since_ms: int | None
    held_back: int
    left: int | None

    @property
    def behind(self) -> int:
        """Unread bytes of the log; 0 if they contain no change."""
        return 0 if self.since_ms is None else self.end - self.read

    @property
    def seconds(self) -> float:
        """Seconds since the commit of the first unread change."""
        return (self.since_ms or 0) / 1000

    @property
    def description(self) -> str:
        """Describe the lag."""
        room = f", {self.left:,} more until it is given up" if self.left is not None else ""
        late = f"{self.behind:,} bytes and {self.seconds:,.1f} s behind" if self.since_ms is not None else "all of it"
        return f"read up to {lsn_text(self.read)}, {late}; slot {self.slot} holds back {self.held_back:,} bytes{room}"


def lag_of(database: Database, slot: PipelineSlot, planned: WalRange) -> WalLag:
    """The lag of the last position, from the server."""
    with slot.hold(), database.open_connection() as connection:
        server, state = server_state(connection), slot_state(connection, planned.slot)
        first: int | None = None
        if state is not None and state.status != "lost":
            ((first,),) = connection.execute(
                _FIRST_UNREAD, [planned.slot, planned.publication, planned.position]
            ).fetchall()
        since = None if first is None else max(server.now_ms - (first + EPOCH_US) // 1000, 0)
        held = state.held_back if state is not None else 0
        return WalLag(planned.slot, planned.position, server.flushed, since, held, state.left if state else None)
