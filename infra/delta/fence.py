"""A fence in a table's log: of a run whose lease was taken, no commit comes behind the one who took it.

Who takes a lease that was not given back raises the fence, before it looks at the table:

    version 7   epoch 7                             of the run with token 3
    version 8   SET TBLPROPERTIES rivermeet.fence = 4     of the run with token 4, which took the lease
    version 9   epoch 8 of the run with token 3     refused: it looks at version 8, and 4 > 3
    version 8   epoch 8 of the run with token 3     refused by the store: it looked at version 7, and 8 is there

A commit is made for the version after the one that was looked at, and the store lets one of two make it, so that there
is no moment between the look and the commit. A commit of Spark's that was begun before the fence fails as well: Delta
lets no commit pass a change of properties. A fold that comes late is nothing new to the table, too: its transaction has
one id for all runs, and the epoch as its number. Held by ``tests/infra/epochs/test_lease.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.pipelines import limits

PROPERTY = "rivermeet.fence"


class LeaseLostError(EpochRefusedError):
    """A run was away for longer than its lease, and another one goes on in its place."""

    is_transient = True
    remedy = "Run it again; raise RIVERMEET_LEASE_SECONDS if runs are held up for so long."

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: another run has taken over, as this one was not heard of for longer than its lease; nothing was "
            "committed here. Run it again, and raise RIVERMEET_LEASE_SECONDS if runs are held up so long",
            table=what,
        )


def fence_of(table: DeltaTable) -> int:
    """The token of the last run that took the table's lease over; 0 where none did."""
    return int(table.metadata().configuration.get(PROPERTY, 0))


def refuse_fenced(table: DeltaTable, token: int | None) -> None:
    """Raise `LeaseLostError` where the table has the fence of a later holder than the one with ``token``."""
    if token is not None and fence_of(table) > token:
        raise LeaseLostError(table.table_uri)


def raise_fence(path: str, token: int, otherwise: Callable[[str, dict[str, str]], None]) -> None:
    """Keep out whoever held the table's lease before the holder with ``token``.

    Parameters
    ----------
    otherwise
        Sets properties of a table that delta-rs does not alter, by Spark.
    """
    for rival in range(limits.FENCED_COMMITS):
        try:
            table = DeltaTable(path)
        except TableNotFoundError:
            return
        if fence_of(table) >= token:
            return
        wanted = {PROPERTY: str(token)}
        try:
            once = CommitProperties(max_commit_retries=0)
            table.alter.set_table_properties(wanted, raise_if_not_exists=False, commit_properties=once)
            return
        except DeltaError:
            if DeltaTable(path).version() > table.version() and rival < limits.FENCED_COMMITS - 1:
                continue
            otherwise(path, wanted)
            return
