"""All problems of a source's table: of the server, the shared slot, the table and the publication.

| the source | checked |
|---|---|
| was never read, or is to be read again | the server and the table; a slot that cannot be used is recreated |
| was read up to a position | all, and whether its slot has everything since |

Held by ``tests/infra/sources/postgres/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rivermeet.infra.postgres.catalog import Alterations, catalog, log_problems
from rivermeet.infra.postgres.publication import publication
from rivermeet.infra.postgres.refusals import PostgresRefusedError, ServerUnfitError, SlotLostError
from rivermeet.infra.postgres.state import (
    server_problems,
    server_state,
    table_problems,
    table_state,
)
from rivermeet.infra.postgres.wal_range import WalRange
from rivermeet.infra.sources.postgres.slot import PipelineSlot, find_truncating
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
