"""What keeps a Delta table from being read: each with what is gone, and the command that goes on."""

from __future__ import annotations

from rivermeet.infra.epochs.refusal import EpochRefusedError


class TableRefusedError(EpochRefusedError):
    """A table that cannot be read as it was planned."""


class TableMissingError(TableRefusedError):
    """There is no Delta table at that place."""


class TableRemadeError(TableRefusedError):
    """The table is another one than its records so far came from: made anew, or declared at another place."""


class VersionsGoneError(TableRefusedError):
    """Versions of a table were removed before they were read: by VACUUM, or with the log's clean-up."""


class VersionWentBackError(TableRefusedError):
    """A table ends before the versions that were read of it: an older copy is in its place."""


class RowsRemovedError(TableRefusedError):
    """Rows were removed from a table that is declared to be appended to alone."""


class FeedOffError(TableRefusedError):
    """A table has no change data feed, or had none for some of the versions that are to be read."""


class TableUnreadableError(TableRefusedError):
    """A table has a feature, or lacks a column, so that its rows cannot be read as they are declared."""


class TablePositionLostError(TableRefusedError):
    """The epoch log does not say up to where a table was read."""
