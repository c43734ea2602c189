"""All that is wrong where a source reads a table: with the server, the shared slot, the table, and the publication.

| the source | is asked about |
|---|---|
| was never read, or is to be read anew | the server and the table; a slot that cannot be used is made anew |
| was read up to a position | all, and whether its slot has everything since |

Held by ``tests/infra/sources/postgres/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from infra.epochs.plan import WalRange
from infra.postgres.refusals import SlotLostError, TableRefusedError
from infra.postgres.state import (
    publication_problems,
    publication_state,
    server_problems,
    server_state,
    table_problems,
    table_state,
)
from infra.sources.postgres.slot import PipelineSlot
from pipelines import Postgres

if TYPE_CHECKING:
    import psycopg


def found_problems(
    connection: psycopg.Connection[Any], slot: PipelineSlot, reads: Postgres, before: WalRange | None
) -> Iterator[TableRefusedError]:
    """What keeps a table from being read, which was read up to ``before``."""
    server, table = server_state(connection), table_state(connection, reads)
    yield from server_problems(server)
    if server.is_standby:
        # It can say nothing of a slot: that asks for the log's end, which a standby does not write.
        return
    if before is not None:
        line = slot.line()
        if line is None or line.state != "standing" or before.slot != line.slot:
            yield SlotLostError(f"slot {before.slot} was given up, and with it the changes since")
        else:
            yield from slot.problems(connection, server)
            if before.position < line.kept:
                yield SlotLostError("other sources went on while it was not declared: the changes since are gone")
    yield from table_problems(reads, table, before)
    if before is not None and table is not None:
        published = publication_state(connection, before.publication, reads, table.oid)
        yield from publication_problems(reads, before.publication, published, before)
