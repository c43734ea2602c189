"""Folding: a changelog's records, MERGEd into its table up to a committed epoch.

The table is a cache: its commit notes say up to which offsets it holds the changelog, so a fold that is behind by any
number of epochs catches up in one MERGE, and one that is up to date does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from infra import crash
from infra.delta_io import FOLDED, append, last_note, merge, read
from infra.delta_lines import opened
from infra.layout import NodeTables
from infra.plan import CommitNote, Offsets

WRITTEN_OUT = 16
"""Up to so many partitions a condition names each."""


def fold(
    session: Callable[[], SparkSession],
    paths: NodeTables,
    key: list[str],
    flatten: Callable[[DataFrame], DataFrame],
    upto: CommitNote,
) -> bool:
    """Bring the table to the epoch of ``upto``; True if it was behind.

    Parameters
    ----------
    session
        Gives a session that only folds use: its settings are changed while a MERGE runs.
    flatten
        Makes a changelog's slice the table's rows: one per key, with ``_deleted``.
    """
    found = last_note(paths.table)
    # Offsets of an earlier incarnation count other records.
    done = found[1] if found is not None and found[1].incarnation == upto.incarnation else None
    if done is not None and done.epoch >= upto.epoch:
        return False
    after = done.ends if done is not None else {}
    app_id = paths.app_id("fold", upto.incarnation)
    source = read(session(), paths.changelog)
    rows = flatten(source.where(between(after, upto.ends)))
    if done is None:
        live = rows.where(~F.col("_deleted")).drop("_deleted")
        append(live, paths.table, app_id, upto.epoch, note=upto, properties=FOLDED, replace=found is not None)
    else:
        merge(rows, paths.table, key, app_id, upto.epoch, upto)
    crash.reached("merged", paths.node)
    return True


def fold_anew(
    session: Callable[[], SparkSession], paths: NodeTables, flatten: Callable[[DataFrame], DataFrame], upto: CommitNote
) -> None:
    """Replace the table by the fold of the whole changelog: whatever it holds, it is a cache."""
    rows = flatten(read(session(), paths.changelog).where(between({}, upto.ends)))
    live = rows.where(~F.col("_deleted")).drop("_deleted")
    found = opened(paths.table)
    # Folds of this epoch are done for Delta, so that this is a write of another kind, numbered by what it replaces.
    app_id, number = paths.app_id("fold-anew", upto.incarnation), found.version() + 1 if found else 0
    append(live, paths.table, app_id, number, note=upto, properties=FOLDED, replace=found is not None)


def between(after: Mapping[int, int], upto: Offsets) -> Column:
    """Whether a record's offset is in ``(after, upto]``."""
    return F.expr(between_sql(after, upto))


def between_sql(after: Mapping[int, int], upto: Offsets) -> str:
    """SQL that tells whether a record's offset is in ``(after, upto]``.

    Few partitions are written out, so that files are skipped by their statistics; of many, the bounds are looked up.
    """
    new = {int(p): int(end) for p, end in upto.items() if end > after.get(p, -1)}
    if len(new) > WRITTEN_OUT:
        start = {p: int(after.get(p, -1)) for p in new}
        return f"offset > {looked_up(start)} AND offset <= {looked_up(new)}"
    slots = [f"(partition = {p} AND offset > {after.get(p, -1)} AND offset <= {end})" for p, end in new.items()]
    return any_of_sql(slots)


def looked_up(values: Mapping[int, int]) -> str:
    """SQL giving the number of a row's partition, null where it has none.

    A condition per partition is evaluated, and planned, one by one: 2,000 cases of a replay are 2,000 partitions.
    """
    by_place = [values.get(p) for p in range(max(values, default=-1) + 1)]
    return f"get(from_json('{json.dumps(by_place)}', 'ARRAY<BIGINT>'), partition)"


def any_of(conditions: Sequence[str]) -> Column:
    """Whether one of the SQL conditions holds."""
    return F.expr(any_of_sql(conditions))


def any_of_sql(conditions: Sequence[str]) -> str:
    """SQL that tells whether one of the conditions holds.

    One text and not a chain of columns: Spark Connect cannot send a chain as long as a topic's partitions
    (``tests/joins/test_stream_global.py`` has 60).
    """
    return " OR ".join(conditions) or "false"
