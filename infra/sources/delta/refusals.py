"""What keeps a Delta table from being read: each with what is gone, and the command that goes on."""

from __future__ import annotations

from rivermeet.infra.refusal import EpochRefusedError


class DeltaTableRefusedError(EpochRefusedError):
    """A table that cannot be read as it was planned."""

    remedy = "Do what the message says, and run again."


class DeltaTableMissingError(DeltaTableRefusedError):
    """There is no Delta table at that place."""

    remedy = "Write the table, or correct the path of the source."


class TableRemadeError(DeltaTableRefusedError):
    """The table is another one than its records so far came from: recreated, or declared at another place."""

    remedy = "Run `rivermeet accept-loss`, or rebuild with `--lose-missing-files`."


class VersionsGoneError(DeltaTableRefusedError):
    """Versions of a table were removed before they were read: by VACUUM, or with the log's cleanup."""

    remedy = "Rebuild from what the table has, or run `rivermeet accept-loss`."


class VersionWentBackError(DeltaTableRefusedError):
    """A table ends before the versions that were read of it: an older copy is in its place."""

    remedy = "Put the newer copy back, or run `rivermeet accept-loss`."


class RowsRemovedError(DeltaTableRefusedError):
    """Rows were removed from a table that is declared to be appended to alone."""

    remedy = 'Declare `changes="feed"`, rebuild, or run `rivermeet accept-loss`.'


class FeedOffError(DeltaTableRefusedError):
    """A table has no change data feed, or had none for some of the versions that are to be read."""

    remedy = 'Switch the change data feed on, or declare `changes="append"`.'


class TableUnreadableError(DeltaTableRefusedError):
    """A table has a feature, or lacks a column, so that its rows cannot be read as they are declared."""

    remedy = "Correct the schema of the source, or read the change data feed."


class TablePositionLostError(DeltaTableRefusedError):
    """The epoch log does not say up to where a table was read."""

    remedy = "Put the epoch log back, or rebuild the source."
