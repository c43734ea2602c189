"""What keeps a table of PostgreSQL from being read: each with what is wrong, and what mends it."""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.infra.epochs.refusal import EpochRefusedError


class TableRefusedError(EpochRefusedError):
    """A table of PostgreSQL that cannot be read as it was planned.

    Parameters
    ----------
    what : str
        What is wrong.
    cure : sequence of str
        SQL statements that mend it where they are run as they stand, in this order; the message ends with them.
    """

    def __init__(self, what: str, cure: Sequence[str] = ()) -> None:
        super().__init__(": ".join([what, "; ".join(cure)] if cure else [what]))
        self.cure = tuple(cure)


class ServerUnavailableError(TableRefusedError):
    """The server does not answer, or does not let us in; the plan stands, and the next run goes on with it."""


class ServerUnfitError(TableRefusedError):
    """The server decodes no changes: its level of logging is too low, it is a standby, or it has no room for a slot."""


class RightMissingError(TableRefusedError):
    """The user of the connection may not do what reading asks for."""


class RowsHiddenError(TableRefusedError):
    """The log has changes of rows that the user does not see in the table."""


class OtherServerError(TableRefusedError):
    """The server is another one than what was read came from, or was restored."""


class SlotLostError(TableRefusedError):
    """The slot is gone, was invalidated, or was moved on by somebody else: changes are lost."""


class SlotBusyError(TableRefusedError):
    """Somebody else reads from the slot, or a transaction keeps a new one from being made."""


class TableMissingError(TableRefusedError):
    """There is no such table, or it is another one than before."""


class ColumnMissingError(TableRefusedError):
    """The table has no such column, or the log has nothing of it."""


class TableAlteredError(TableRefusedError):
    """Rows were written anew, or came or went, and the log does not say so."""


class NotLoggedError(TableRefusedError):
    """The log has no changes of the table, or of a partition."""


class NotPublishedError(TableRefusedError):
    """The publication lacks the table, or some of its changes."""


class IdentityError(TableRefusedError):
    """The log does not say of a changed row which one it was."""


class KeyRepeatedError(TableRefusedError):
    """Two rows of a table have the key that should keep them apart; another key may be declared."""

    replan = True


class PositionLostError(TableRefusedError):
    """The epoch log does not say up to where a table was read."""


class NotRepeatableError(TableRefusedError):
    """What is asked for would need changes that the log has no more."""
