"""What keeps a table of PostgreSQL from being read: each with what is wrong, and what mends it."""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.infra.refusal import EpochRefusedError


class PostgresRefusedError(EpochRefusedError):
    """A table of PostgreSQL that cannot be read as it was planned.

    Parameters
    ----------
    what : str
        What is wrong.
    cure : sequence of str
        SQL statements that mend it where they are run as they stand, in this order; the message ends with them.
    """

    remedy = "Run the statements that the message ends with, and run again."

    def __init__(self, what: str, cure: Sequence[str] = (), **fields: object) -> None:
        super().__init__(": ".join([what, "; ".join(cure)] if cure else [what]), **fields)
        self.cure = tuple(cure)


class ServerUnavailableError(PostgresRefusedError):
    """The server does not answer, or does not let us in; the plan stands, and the next run goes on with it."""

    remedy = "See to the server, or to RIVERMEET_POSTGRES, and run again."


class ServerUnfitError(PostgresRefusedError):
    """The server decodes no changes: its level of logging is too low, it is a standby, or it has no room for a slot."""

    remedy = "Run the statement that the message ends with and restart the server, or name the primary."


class RightMissingError(PostgresRefusedError):
    """The user of the connection may not do what reading asks for."""

    remedy = "Run the statement that the message ends with, as a user who may grant it."


class RowsHiddenError(PostgresRefusedError):
    """The log has changes of rows that the user does not see in the table."""

    remedy = "Show the user all rows, by BYPASSRLS or by a policy."


class OtherServerError(PostgresRefusedError):
    """The server is another one than what was read came from, or was restored."""

    remedy = "Name the server that was read before, or run `rivermeet resnapshot`."


class SlotLostError(PostgresRefusedError):
    """The slot is gone, was invalidated, or was moved on by somebody else: changes are lost."""

    remedy = "Run `rivermeet resnapshot`: it reads the table as it stands."


class SlotBusyError(PostgresRefusedError):
    """Somebody else reads from the slot, or a transaction keeps a new one from being made."""

    remedy = "End the other reader or transaction, and run again."


class PostgresTableMissingError(PostgresRefusedError):
    """There is no such table, or it is another one than before."""

    remedy = "Make the table, correct the declaration, or declare the tables behind a view."


class ColumnMissingError(PostgresRefusedError):
    """The table has no such column, or the log has nothing of it."""

    remedy = "Take the column out of the schema of the source."


class TableAlteredError(PostgresRefusedError):
    """Rows were rewritten, or came or went, and the log does not say so."""

    remedy = "Run `rivermeet resnapshot`: the log does not say which rows changed."


class NotLoggedError(PostgresRefusedError):
    """The log has no changes of the table, or of a partition."""

    remedy = "Make the partition LOGGED, or read the others."


class NotPublishedError(PostgresRefusedError):
    """The publication lacks the table, or some of its changes."""

    remedy = "Run the statements that the message ends with; where changes are lost, `rivermeet resnapshot`."


class IdentityError(PostgresRefusedError):
    """The log does not say of a changed row which one it was."""

    remedy = "Give `key=` the columns of the identity, or set REPLICA IDENTITY FULL."


class KeyRepeatedError(PostgresRefusedError):
    """Two rows of a table have the key that should keep them apart; another key may be declared."""

    remedy = "Give `key=` columns of a unique index."

    replan = True


class LogPositionLostError(PostgresRefusedError):
    """The epoch log does not say up to where a table was read."""

    remedy = "Put the epoch log back, or run `rivermeet resnapshot`."


class NotRepeatableError(PostgresRefusedError):
    """What is asked for would need changes that the log has no more."""

    remedy = "Correct the declaration, and run `rivermeet resnapshot`."
