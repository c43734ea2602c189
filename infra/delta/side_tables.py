"""Tables beside a changelog (late, dead letters, memory): written before the commit, valid after it.

Their rows carry the epoch. A row counts if its epoch is committed and belongs to the changelog's current incarnation:
from the note's ``since`` to its ``epoch``, without epochs whose plan was put aside. If an epoch is run again with the
same plan, its rows are already written. If two homes that share tables plan the same epoch, and the first dies before
its commit, the second plan may have other rows, or none: then those of the first are replaced
(``tests/infra/sources/test_dead_letters.py::test_letters_of_an_attempt_by_another_home``).

The rows are staged and judged with the epoch's result, and its commit names both
(``infra/delta/staged.py``). Files of a failed attempt stay in folders that no log names.

The quarantine contains the rows of refused epochs, from the last attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.delta.io import RETENTION, allow_removal, append
from rivermeet.infra.delta.lines import commits, open_table
from rivermeet.infra.delta.staged import Staged, commit_staged, stage


class Planned(Protocol):
    """The plan that an epoch's rows depend on."""

    @property
    def epoch(self) -> int:
        """Its number."""
        ...

    def model_dump_json(self) -> str:
        """All of it."""
        ...


def stage_side(frame: DataFrame, path: str, plan: Planned) -> Staged | None:
    """Write a side frame of an epoch below its table; None if Spark has to append it."""
    return stage(_with_epoch(frame, plan), path, f"epoch-{plan.epoch}")


def drop_other_attempt(session: Callable[[], SparkSession], path: str, app_id: str, plan: Planned) -> None:
    """Delete the rows that an attempt with another plan has written, for an epoch without rows.

    The commit names its plan, like one with rows: otherwise the other home would assume that its own rows are written.
    """
    table = open_table(path)
    if table is not None and (table.transaction_version(app_id) or 0) >= plan.epoch:
        _replace(session().read.format("delta").load(path).where("false"), path, table, plan.epoch, _mark(plan))


def write_side(
    frame: DataFrame, path: str, app_id: str, plan: Planned, besides: str = "", staged: Staged | None = None
) -> None:
    """Write a side frame of an epoch, once.

    Parameters
    ----------
    besides
        A text for what the rows depend on in addition to the plan.
    staged
        The same rows in files, if they are staged.
    """
    rows, mark = _with_epoch(frame, plan), _mark(plan, besides)
    table = open_table(path)
    if table is not None and (table.transaction_version(app_id) or 0) >= plan.epoch:
        _replace(rows, path, table, plan.epoch, mark)
    elif staged is not None:
        commit_staged(staged, app_id, plan.epoch, mark, properties=RETENTION)
    else:
        append(rows, path, app_id, plan.epoch, metadata=mark, properties=RETENTION)


def _replace(rows: DataFrame, path: str, table: DeltaTable, epoch: int, mark: str) -> None:
    """Replace the rows of an epoch, unless the newest commit of the epoch has the mark of the same rows."""
    written = next((c for c in commits(table) if (c.get("userMetadata") or "").startswith(f"{epoch} ")), {})
    if written.get("userMetadata") != mark:
        # An earlier version may have made the table append-only, and with fewer columns.
        allow_removal(rows.sparkSession, path, table)
        replaced = rows.write.format("delta").mode("overwrite").option("replaceWhere", f"epoch = {epoch}")
        replaced.option("mergeSchema", "true").option("userMetadata", mark).save(path)


def _mark(plan: Planned, besides: str = "") -> str:
    """The metadata of the commit of an epoch's rows, which identifies their plan."""
    return f"{plan.epoch} {hashlib.sha256((plan.model_dump_json() + besides).encode()).hexdigest()}"


def _with_epoch(frame: DataFrame, plan: Planned) -> DataFrame:
    return frame.select("*", F.lit(plan.epoch).cast("bigint").alias("epoch"))
