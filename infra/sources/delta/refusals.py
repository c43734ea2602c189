"""Errors about a Delta table that cannot be read: each names what is missing, and the command that continues."""

from __future__ import annotations

from rivermeet.infra.refusal import EpochRefusedError


class DeltaTableRefusedError(EpochRefusedError):
    """A table that cannot be read as planned."""

    remedy = "Do what the message says, and run again."


class DeltaTableMissingError(DeltaTableRefusedError):
    """There is no Delta table at the declared path."""

    remedy = "Write the table, or correct the path of the source."


class TableRemadeError(DeltaTableRefusedError):
    """The table differs from the one that the earlier records came from: it was recreated, or has another path."""

    remedy = "Run `rivermeet accept-loss`, or rebuild with `--lose-missing-files`."


class VersionsGoneError(DeltaTableRefusedError):
    """Versions of a table were removed before they were read: by VACUUM, or with the log's cleanup."""

    remedy = "Rebuild from what the table has, or run `rivermeet accept-loss`."


class VersionWentBackError(DeltaTableRefusedError):
    """A table ends before versions that were already read: an older copy is in its place."""

    remedy = "Put the newer copy back, or run `rivermeet accept-loss`."


class RowsRemovedError(DeltaTableRefusedError):
    """Rows were removed from a table that is declared as append-only."""

    remedy = 'Declare `changes="feed"`, rebuild, or run `rivermeet accept-loss`.'


class FeedOffError(DeltaTableRefusedError):
    """A table has no change data feed, or had none for some of the versions to be read."""

    remedy = 'Enable the change data feed, or declare `changes="append"`.'


class TableUnreadableError(DeltaTableRefusedError):
    """A table has a feature, or lacks a column, so that its rows cannot be read as declared."""

    remedy = "Correct the schema of the source, or read the change data feed."


class TablePositionLostError(DeltaTableRefusedError):
    """The epoch log does not say up to which version a table was read."""

    remedy = "Put the epoch log back, or rebuild the source."
