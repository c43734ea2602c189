"""Tables beside a changelog (late, dead letters, memory): written before the commit, counted after it.

Their rows carry the epoch. One counts if its epoch is committed and of the incarnation that the changelog has now: from
the note's ``since`` to its ``epoch``, without those whose plan was put aside. An epoch that is run again as it was
planned finds its rows written. One that was planned by two homes that share tables, the first of which died before its
commit, may be another epoch with other rows, or with none: then those of the first are replaced
(``tests/infra/sources/test_dead_letters.py::test_letters_of_an_attempt_by_another_home``).

The rows of an epoch that has any are staged with its result, where they are judged, and its commit names both
(``infra/delta/staged.py``). Files of an attempt that came to nothing lie in folders that no log names.

The quarantine has the rows of epochs that were refused, as the last attempt gave them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.delta.io import RETENTION, allow_removal, append
from rivermeet.infra.delta.lines import commits, opened
from rivermeet.infra.delta.staged import Staged, commit_staged, stage


class Planned(Protocol):
    """What an epoch's rows depend on."""

    @property
    def epoch(self) -> int:
        """Its number."""
        ...

    def model_dump_json(self) -> str:
        """All of it."""
        ...


def stage_side(frame: DataFrame, path: str, plan: Planned) -> Staged | None:
    """Write a side frame of an epoch below its table; None where Spark has to append it."""
    return stage(_with_epoch(frame, plan), path, f"epoch-{plan.epoch}")


def drop_other_attempt(session: Callable[[], SparkSession], path: str, app_id: str, plan: Planned) -> None:
    """Delete what an attempt by another plan has written for an epoch that has no rows itself.

    The commit says which plan it is of, as one with rows does: the other home would take its own rows for written.
    """
    table = opened(path)
    if table is not None and (table.transaction_version(app_id) or 0) >= plan.epoch:
        _replace(session().read.format("delta").load(path).where("false"), path, table, plan.epoch, _mark(plan))


def write_side(
    frame: DataFrame, path: str, app_id: str, plan: Planned, besides: str = "", staged: Staged | None = None
) -> None:
    """Write a side frame of an epoch, once.

    Parameters
    ----------
    besides
        What the rows depend on other than the plan.
    staged
        The same rows in files, where they are.
    """
    rows, mark = _with_epoch(frame, plan), _mark(plan, besides)
    table = opened(path)
    if table is not None and (table.transaction_version(app_id) or 0) >= plan.epoch:
        _replace(rows, path, table, plan.epoch, mark)
    elif staged is not None:
        commit_staged(staged, app_id, plan.epoch, mark, properties=RETENTION)
    else:
        append(rows, path, app_id, plan.epoch, metadata=mark, properties=RETENTION)


def _replace(rows: DataFrame, path: str, table: DeltaTable, epoch: int, mark: str) -> None:
    """Put rows in place of those of an epoch, unless they are there: the newest commit of the epoch has their mark."""
    written = next((c for c in commits(table) if (c.get("userMetadata") or "").startswith(f"{epoch} ")), {})
    if written.get("userMetadata") != mark:
        # An earlier version may have made the table append-only, and with fewer columns.
        allow_removal(rows.sparkSession, path, table)
        replaced = rows.write.format("delta").mode("overwrite").option("replaceWhere", f"epoch = {epoch}")
        replaced.option("mergeSchema", "true").option("userMetadata", mark).save(path)


def _mark(plan: Planned, besides: str = "") -> str:
    """What the commit of an epoch's rows says of itself: of which plan they are."""
    return f"{plan.epoch} {hashlib.sha256((plan.model_dump_json() + besides).encode()).hexdigest()}"


def _with_epoch(frame: DataFrame, plan: Planned) -> DataFrame:
    return frame.withColumn("epoch", F.lit(plan.epoch).cast("bigint"))
