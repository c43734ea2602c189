"""Folding: a changelog's records, MERGEd into its table up to a committed epoch.

The table is a cache: its commit notes say up to which offsets it holds the changelog, so a fold that is behind by any
number of epochs catches up in one MERGE, and one that is up to date does nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from infra import crash
from infra.delta.changelog_files import records
from infra.delta.io import FOLDED, append, last_note, merge
from infra.delta.layout import NodeTables
from infra.delta.lines import opened
from infra.epochs.plan import CommitNote
from records.changelog import table_rows


def fold(
    session: Callable[[], SparkSession],
    paths: NodeTables,
    key: list[str],
    upto: CommitNote,
) -> bool:
    """Bring the table to the epoch of ``upto``; True if it was behind.

    Parameters
    ----------
    session
        Gives a session that only folds use: its settings are changed while a MERGE runs.
    """
    found = last_note(paths.table)
    # Offsets of an earlier incarnation count other records.
    done = found[1] if found is not None and found[1].incarnation == upto.incarnation else None
    if done is not None and done.epoch >= upto.epoch:
        return False
    after = done.ends if done is not None else {}
    app_id = paths.app_id("fold", upto.incarnation)
    rows = table_rows(records(session(), paths.changelog, after, upto.ends))
    if done is None:
        live = rows.where(~F.col("_deleted")).drop("_deleted")
        append(live, paths.table, app_id, upto.epoch, note=upto, properties=FOLDED, replace=found is not None)
    else:
        merge(rows, paths.table, key, app_id, upto.epoch, upto)
    crash.reached("merged", paths.node)
    return True


def fold_anew(session: Callable[[], SparkSession], paths: NodeTables, upto: CommitNote) -> None:
    """Replace the table by the fold of the whole changelog: whatever it holds, it is a cache."""
    rows = table_rows(records(session(), paths.changelog, {}, upto.ends))
    live = rows.where(~F.col("_deleted")).drop("_deleted")
    found = opened(paths.table)
    # Folds of this epoch are done for Delta, so that this is a write of another kind, numbered by what it replaces.
    app_id, number = paths.app_id("fold-anew", upto.incarnation), found.version() + 1 if found else 0
    append(live, paths.table, app_id, number, note=upto, properties=FOLDED, replace=found is not None)
