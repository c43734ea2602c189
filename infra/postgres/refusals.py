"""Errors about a table of PostgreSQL that cannot be read, each with its remedy."""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.infra.refusal import EpochRefusedError


class PostgresRefusedError(EpochRefusedError):
    """A table of PostgreSQL that cannot be read as planned.

    ``cure`` are SQL statements that fix it when they are run in this order; the message ends with them.
    """

    remedy = "Run the statements that the message ends with, and run again."

    def __init__(self, what: str, cure: Sequence[str] = (), **fields: object) -> None:
        super().__init__(": ".join([what, "; ".join(cure)] if cure else [what]), **fields)
        self.cure = tuple(cure)


class ServerUnavailableError(PostgresRefusedError):
    """The server does not answer, or refuses the login; the next run continues with the plan."""

    is_transient = True
    remedy = "Check the server and RIVERMEET_POSTGRES, and run again."


class ServerUnfitError(PostgresRefusedError):
    """The server cannot decode changes: `wal_level` is too low, it is a standby, or it has no free slot."""

    remedy = "Run the statement that the message ends with and restart the server, or name the primary."


class RightMissingError(PostgresRefusedError):
    """The user of the connection lacks a privilege that reading requires."""

    remedy = "Run the statement that the message ends with, as a user who may grant it."


class RowsHiddenError(PostgresRefusedError):
    """The log has changes of rows that the user does not see in the table."""

    remedy = "Show the user all rows, by BYPASSRLS or by a policy."


class OtherServerError(PostgresRefusedError):
    """The server differs from the one that the earlier records came from, or was restored."""

    remedy = "Name the server that was read before, or run `rivermeet resnapshot`."


class SlotLostError(PostgresRefusedError):
    """The slot is missing, was invalidated, or was advanced by another client: changes are lost."""

    remedy = "Run `rivermeet resnapshot`: it takes a new snapshot of the table."


class SlotBusyError(PostgresRefusedError):
    """Another client reads from the slot, or an open transaction prevents the creation of a new one."""

    is_transient = True
    remedy = "End the other reader or transaction, and run again."


class PostgresTableMissingError(PostgresRefusedError):
    """There is no such table, or it was recreated."""

    remedy = "Make the table, correct the declaration, or declare the tables behind a view."


class ColumnMissingError(PostgresRefusedError):
    """The table has no such column, or the column is not in the log."""

    remedy = "Take the column out of the schema of the source."


class TableAlteredError(PostgresRefusedError):
    """Rows were rewritten, added or removed without an entry in the log."""

    remedy = "Run `rivermeet resnapshot`: the log does not say which rows changed."


class NotLoggedError(PostgresRefusedError):
    """The log has no changes of the table, or of a partition."""

    remedy = "Make the partition LOGGED, or read the others."


class NotPublishedError(PostgresRefusedError):
    """The publication lacks the table, or some of its changes."""

    remedy = "Run the statements that the message ends with; where changes are lost, `rivermeet resnapshot`."


class IdentityError(PostgresRefusedError):
    """The log does not identify a changed row."""

    remedy = "Give `key=` the columns of the identity, or set REPLICA IDENTITY FULL."


class KeyRepeatedError(PostgresRefusedError):
    """Two rows of a table have the same declared key."""

    remedy = "Give `key=` columns of a unique index."

    replan = True


class LogPositionLostError(PostgresRefusedError):
    """The epoch log does not say up to which position a table was read."""

    remedy = "Put the epoch log back, or run `rivermeet resnapshot`."


class NotRepeatableError(PostgresRefusedError):
    """The request needs changes that the log no longer has."""

    remedy = "Correct the declaration, and run `rivermeet resnapshot`."
