"""Bad rows of a source's epoch that was refused for their number: all of them in a table, the first in the message.

    orders.csv, line 3: "x0,no,0" (column 'n': 'no' is not INT)

Held by ``tests/infra/sources/test_bad_input.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from infra.delta.io import RETENTION, append
from infra.epochs.plan import EpochPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

SHOWN, WIDTH = 5, 200
"""Bad rows that a message names, and characters of each."""


def reject(dead: DataFrame, path: str, plan: EpochPlan) -> None:
    """Keep the bad rows of a refused epoch, in place of those of the epoch that was refused before.

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


def first_bad_rows(dead: DataFrame, count: int) -> str:
    """The first of so many bad rows, each with its place, its text and what is wrong with it."""
    shown = dead.orderBy("file", "position").limit(SHOWN).collect()
    texts = [text for _, rows in groupby(shown, lambda row: row.file) for text in _texts(list(rows))]
    return f"{'The first' if count > len(texts) else 'They are'}: {'; '.join(texts)}"


def _texts(rows: Sequence[Row]) -> Iterator[str]:
    """Bad rows of one file, in their order."""
    texts = [row.text for row in rows if row.text is not None]
    lines = _line_numbers(rows[0].file, texts) if texts and rows[0].line is None else iter(())
    for row in rows:
        if row.text is None:
            yield f"{row.file} ({row.reason})"
            continue
        line = row.line or next(lines, None)
        place = f"line {line}" if line else f"bad row {row.position}"
        text = row.text if len(row.text) <= WIDTH else f"{row.text[:WIDTH]}…"
        yield f"{row.file}, {place}: {json.dumps(text, ensure_ascii=False)} ({row.reason})"


def _line_numbers(path: str, texts: Iterable[str]) -> Iterator[int | None]:
    """Numbers of the lines with these texts, which follow each other; None where they cannot be found.

    Spark reads parts of a file at once and counts no lines. Where two lines are the same text, both are bad.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            numbered = enumerate(file, 1)
            for text in texts:
                yield next((number for number, line in numbered if line.rstrip("\r\n") == text), None)
    except OSError:  # no plain file of this machine
        return
