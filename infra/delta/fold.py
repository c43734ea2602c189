"""Folding: merges a changelog's records into its table, up to a committed epoch.

The table is a cache: its commit notes say up to which offsets it contains the changelog, so a fold that is behind by
any number of epochs catches up in one commit, and one that is up to date does nothing.

| the table | how |
|---|---|
| has few rows, and never had many | rewritten by the driver (``fold_few.py``): a MERGE takes ten actions |
| has more | MERGE with deletion vectors: writes grow with the records, not with the table |
| does not exist, or belongs to an earlier incarnation | rewritten |

    3,000 rows, 100 records      one file of some 3,000 rows replaces all files
    1,000,000 rows, 10,000       a file of new and changed rows, and deletion vectors for rows of the others

In a large first fold each file has the keys of one range, if keys are numbers; a MERGE reads only the files that may
have its keys.

Held by ``tests/infra/delta/test_fold.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.delta.changelog_files import bytes_between, records
from rivermeet.infra.delta.column_ranges import ColumnRanges, has_range
from rivermeet.infra.delta.fold_few import stage_few
from rivermeet.infra.delta.io import FOLDED, RETENTION, VECTORS, append, last_note, merge
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table, rows_in
from rivermeet.infra.delta.offsets import count_between
from rivermeet.infra.delta.staged import commit_staged
from rivermeet.pipelines import limits
from rivermeet.records.changelog import table_rows


def fold(
    session: Callable[[], SparkSession],
    paths: NodeTables,
    key: list[str],
    upto: CommitNote,
    token: int | None = None,
) -> bool:
    """Fold the table up to the epoch of ``upto``; return whether it was behind.

    Parameters
    ----------
    session
        Opens a session that only folds use: its settings are changed while a MERGE runs.
    token
        Token of the lease under which it is folded, if there is one.
    """
    found = last_note(paths.table)
    # Offsets of an earlier incarnation denote other records.
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
    crash.crash_at("merged", paths.node)
    return True


def refold(session: Callable[[], SparkSession], paths: NodeTables, key: list[str], upto: CommitNote) -> None:
    """Replace the table by the fold of the whole changelog; its contents do not matter, because it is a cache."""
    changelog = records(session(), paths.changelog, {}, upto.ends)
    rows = _last_by_key(changelog, paths, key, {}, upto.ends)
    live = rows.where(~F.col("_deleted")).drop("_deleted")
    found = open_table(paths.table)
    # For Delta, folds of this epoch are done; so this write has another id, and the version that it replaces as its
    # number.
    app_id, number = paths.app_id("fold-anew", upto.incarnation), found.version() + 1 if found else 0
    append(live, paths.table, app_id, number, note=upto, properties=FOLDED, replace=found is not None)


def _last_by_key(
    changelog: DataFrame, paths: NodeTables, key: list[str], after: Mapping[int, int], upto: Offsets
) -> DataFrame:
    """The last record of each key as columns of the table, in one file per range of keys if these are numbers.

    An epoch then reads the files that may have its keys (``joins/equal_columns.py``). The fold groups by key and needs
    a shuffle anyway, which this one replaces; it reads its input twice.
    """
    kind = cast(StructType, changelog.schema["key"].dataType)
    ranges = bytes_between(paths.changelog, after, upto) // limits.KEY_RANGE_BYTES
    if ranges > 1 and has_range(kind[key[0]].dataType):
        changelog = changelog.repartitionByRange(ranges, "key")
    return table_rows(changelog)


def _is_few(path: str, new: int) -> bool:
    table = open_table(path)
    rows = 0 if table is None else rows_in(table)
    return rows is not None and rows + new <= limits.WHOLE_TABLE_ROWS
