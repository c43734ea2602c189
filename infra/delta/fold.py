"""Folding: a changelog's records, brought into its table up to a committed epoch.

The table is a cache: its commit notes say up to which offsets it holds the changelog, so a fold that is behind by any
number of epochs catches up in one commit, and one that is up to date does nothing.

| the table | how |
|---|---|
| has few rows, and never had many | written whole by the driver (``fold_few.py``): a MERGE takes ten actions |
| has more | MERGE with deletion vectors: what is written grows with the records, not with the table |
| is not there, or one of an earlier incarnation | written whole |

    3,000 rows, 100 records      one file of some 3,000 rows takes the place of all
    1,000,000 rows, 10,000       a file of the rows that came or changed, and which rows of the others no longer count

Of a first fold that is large each file has the keys of one range, where keys are numbers; a MERGE looks for its keys in
the files that may have them.

Held by ``tests/infra/delta/test_fold.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rivermeet.infra import crash
from rivermeet.infra.delta.changelog_files import bytes_between, records
from rivermeet.infra.delta.fold_few import stage_few
from rivermeet.infra.delta.io import FOLDED, RETENTION, VECTORS, append, last_note, merge
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import opened, rows_in
from rivermeet.infra.delta.staged import commit_staged
from rivermeet.infra.epochs.column_ranges import ColumnRanges, has_range
from rivermeet.infra.epochs.offsets import count_between
from rivermeet.infra.epochs.plan import CommitNote, Offsets
from rivermeet.records.changelog import table_rows

FEW = 20_000
"""Rows of a table that is written whole: a megabyte or so, until maintenance removes what was before."""
RANGE = 32 * 2**20
"""Bytes of a changelog that one range of keys is made of: maintenance leaves such files as they are."""


def fold(
    session: Callable[[], SparkSession],
    paths: NodeTables,
    key: list[str],
    upto: CommitNote,
    token: int | None = None,
) -> bool:
    """Bring the table to the epoch of ``upto``; True if it was behind.

    Parameters
    ----------
    session
        Gives a session that only folds use: its settings are changed while a MERGE runs.
    token
        Of the lease under which it is folded, where there is one.
    """
    found = last_note(paths.table)
    # Offsets of an earlier incarnation count other records.
    done = found[1] if found is not None and found[1].incarnation == upto.incarnation else None
    if done is not None and done.epoch >= upto.epoch:
        return False
    after = done.ends if done is not None else {}
    app_id = paths.app_id("fold", upto.incarnation)
    is_few = _is_few(paths.table, count_between(after, upto.ends))
    replaced = found is not None and done is None
    whole = is_few and not replaced
    few = stage_few(paths.changelog, paths.table, after, upto.ends, f"fold-{upto.epoch}") if whole else None
    if few is not None:
        commit_staged(few, app_id, upto.epoch, upto, mode="overwrite", properties=RETENTION, token=token)
    else:
        tail = records(session(), paths.changelog, after, upto.ends)
        rows = _last_by_key(tail, paths, key, after, upto.ends)
        if done is None:
            live = rows.where(~F.col("_deleted")).drop("_deleted")
            append(live, paths.table, app_id, upto.epoch, note=upto, properties=FOLDED, replace=replaced)
        else:
            ranges = ColumnRanges.of_changelog(paths.changelog, after, upto.ends)
            properties = {} if is_few else VECTORS
            merge(rows, paths.table, key, app_id, upto.epoch, upto, properties, ranges.sql_of_key(key))
    crash.reached("merged", paths.node)
    return True


def fold_anew(session: Callable[[], SparkSession], paths: NodeTables, key: list[str], upto: CommitNote) -> None:
    """Replace the table by the fold of the whole changelog: whatever it holds, it is a cache."""
    changelog = records(session(), paths.changelog, {}, upto.ends)
    rows = _last_by_key(changelog, paths, key, {}, upto.ends)
    live = rows.where(~F.col("_deleted")).drop("_deleted")
    found = opened(paths.table)
    # Folds of this epoch are done for Delta, so that this is a write of another kind, numbered by what it replaces.
    app_id, number = paths.app_id("fold-anew", upto.incarnation), found.version() + 1 if found else 0
    append(live, paths.table, app_id, number, note=upto, properties=FOLDED, replace=found is not None)


def _last_by_key(
    changelog: DataFrame, paths: NodeTables, key: list[str], after: Mapping[int, int], upto: Offsets
) -> DataFrame:
    """The last record of each key as columns of the table, in ranges of keys where these are numbers: a file each.

    An epoch then reads the files that may have its keys (``joins/equal_columns.py``). The fold groups by key and needs
    a shuffle anyway, so that this one takes its place; it looks at its input twice.
    """
    kind = cast(StructType, changelog.schema["key"].dataType)
    ranges = bytes_between(paths.changelog, after, upto) // RANGE
    if ranges > 1 and has_range(kind[key[0]].dataType):
        changelog = changelog.repartitionByRange(ranges, "key")
    return table_rows(changelog)


def _is_few(path: str, new: int) -> bool:
    table = opened(path)
    rows = 0 if table is None else rows_in(table)
    return rows is not None and rows + new <= FEW
