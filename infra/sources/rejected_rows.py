"""Bad rows of a source's epoch that was refused because of them: all in a table, the first ones in the message.

    orders.csv, line 3: "x0,no,0" (column 'n': 'no' is not INT)

Held by ``tests/infra/sources/test_bad_input.py``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from rivermeet.infra.delta.io import RETENTION, append
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.pipelines import limits
from rivermeet.pipelines.counted import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


class TooManyBadRowsError(EpochRefusedError):
    """An epoch has more bad rows than the source allows; its input stays unread."""

    remedy = "Correct the declaration or the files, and run again; the table `rejected` has the rows."

    replan = True


@dataclass(frozen=True)
class Read:
    """Words of a message for what an epoch has read: ``rows in 3 files``, and the place of a row.

    Attributes
    ----------
    within
        What contains the rows.
    unit
        The unit of a row's number.
    remedy
        How to correct them.
    """

    within: str
    unit: str
    remedy: str


def refuse_too_many(
    source: str, dead: DataFrame, path: str, plan: EpochPlan, counts: tuple[int, int, int], share: float, read: Read
) -> None:
    """Keep the bad rows of an epoch and refuse it.

    Parameters
    ----------
    source
        Its name, as ``PIPELINE.SOURCE``.
    dead, path
        As in `reject`.
    counts
        Bad rows, all rows, and dead letters, some of which may be whole files.
    share
        The share of bad rows that the source allows.
    """
    bad, total, letters = counts
    reject(dead, path, plan)
    first = first_bad_rows(dead, letters, read.unit)
    raise TooManyBadRowsError(
        f"source '{source}': {bad} of {counted(total, 'row')} in {read.within} are no records, more than "
        f"max_bad_share={share}; nothing was loaded: {read.remedy}. {first}. All are kept in {path}"
    )


def reject(dead: DataFrame, path: str, plan: EpochPlan) -> None:
    """Store the bad rows of a refused epoch, replacing those of an earlier one.

    Parameters
    ----------
    dead
        In the columns of a dead-letter table.
    path
        Location of the table ``rejected``.
    """
    rows = dead.withColumn("epoch", F.lit(plan.epoch).cast("bigint"))
    app_id = f"{plan.pipeline}/{plan.node}/rejected/{plan.incarnation}"
    append(rows, path, app_id, plan.epoch, properties=RETENTION, replace=True)


def first_bad_rows(dead: DataFrame, count: int, unit: str = "line") -> str:
    """The first of the bad rows, each with its place, its text and its problem."""
    texts = [_show_row(row, unit) for row in dead.orderBy("file", "position").limit(limits.SHOWN_ROWS).collect()]
    return f"{'The first' if count > len(texts) else 'They are'}: {'; '.join(texts)}"


def _show_row(row: Row, unit: str) -> str:
    if row.text is None:
        return f"{row.file} ({row.reason})"
    place = f"{unit} {row.line}" if row.line is not None else f"bad row {row.position}"
    text = row.text if len(row.text) <= limits.MESSAGE_WIDTH else f"{row.text[: limits.MESSAGE_WIDTH]}…"
    return f"{row.file}, {place}: {json.dumps(text, ensure_ascii=False)} ({row.reason})"
