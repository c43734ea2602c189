"""A fence in a table's log: a run that lost its lease cannot commit after the new holder.

A run that takes a lease which was not released raises the fence before it reads the table:

    version 7   epoch 7                             by the run with token 3
    version 8   SET TBLPROPERTIES rivermeet.fence = 4     by the run with token 4, which took the lease
    version 9   epoch 8 by the run with token 3     refused: it reads version 8, and 4 > 3
    version 8   epoch 8 by the run with token 3     refused by the store: it has read version 7, and 8 exists

A commit creates the version after the one that was read, and the store accepts only one of two, so there
is no gap between check and commit. A Spark commit that began before the fence fails as well: in Delta it
conflicts with a change of properties. A late fold has no effect either: its transaction has
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
    """A run did not renew its lease in time, and another run has taken over."""

    is_transient = True
    remedy = "Run it again; raise RIVERMEET_LEASE_SECONDS if runs are held up for so long."

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: another run has taken over, as this one was not heard of for longer than its lease; nothing was "
            "committed here. Run it again, and raise RIVERMEET_LEASE_SECONDS if runs are held up so long",
            table=what,
        )


def fence_of(table: DeltaTable) -> int:
    """The token of the last run that took over the table's lease; 0 if there is none."""
    return int(table.metadata().configuration.get(PROPERTY, 0))


def refuse_fenced(table: DeltaTable, token: int | None) -> None:
    """Raise `LeaseLostError` if the table has the fence of a later holder than the one with ``token``."""
    if token is not None and fence_of(table) > token:
        raise LeaseLostError(table.table_uri)


def raise_fence(path: str, token: int, otherwise: Callable[[str, dict[str, str]], None]) -> None:
    """Keep out earlier holders of the table's lease than the one with ``token``.

    Parameters
    ----------
    otherwise
        Sets properties of a table that delta-rs cannot alter, with Spark.
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
