"""Dead letters that are still open, and how they are read again once the declaration or the file was mended.

The dead-letter table keeps every letter that ever was, known by (epoch, file, line, position). A letter is open while
no committed epoch has taken it up:

    epoch 1   1.csv, position 1   "b,x,20"   column 'n': 'x' is not INT
    epoch 1   2.csv, position 0   NULL       the file has no column 'n'       (0: the file itself)
    epoch 4   retries epoch 1: "b,x,20" is a record now; 2.csv is read again, and its second row is dead
    epoch 4   2.csv, position 1   "d,y,40"   column 'n': 'y' is not INT       the only open one

- The letters of a row belong to their epoch: they are closed when a committed plan retries it. What is dead still is
  written anew with the retrying epoch and its reason of today, so each counts once.
- The letter of a file is closed, too, when a later plan has the file: it was replaced, and is read like a new one.
- What is a record now comes after all that the changelog has. That is what a late delivery means: a join may find
  its window closed.

Held by ``tests/infra/sources/test_dead_letters.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.lines import opened
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.sources.csv import csv_parsed, header_problem
from rivermeet.infra.sources.declared_types import as_declared
from rivermeet.infra.sources.json import json_parsed
from rivermeet.infra.sources.line_formats import LINE_COLUMNS
from rivermeet.infra.sources.parquet import parquet_parsed
from rivermeet.infra.sources.row_to_record import is_cut
from rivermeet.pipelines import Files

GONE = "the file cannot be read again, for it is no longer among the files of the source; deliver it anew"
_OTHER = "the row was a line of JSON; its source reads another format now"
_CUT = "the row is not kept whole and cannot be read again; deliver it in a new file"


@dataclass(frozen=True)
class OpenLetters:
    """Open dead letters: their epochs, the files that are dead as such, and how many letters there are in all."""

    epochs: tuple[int, ...] = ()
    files: frozenset[str] = frozenset()
    count: int = 0


def open_letters(path: str, plans: Sequence[EpochPlan]) -> OpenLetters:
    """The open letters of a dead-letter table; read without Spark.

    Parameters
    ----------
    path
        The table; there may be none.
    plans
        The committed plans of the source's incarnation.
    """
    table = opened(path)
    if table is None:
        return OpenLetters()
    committed = {plan.epoch for plan in plans}
    retried = {epoch for plan in plans for epoch in plan.retries}
    last_read = {file.path: plan.epoch for plan in plans for file in plan.files}
    dataset = table.to_pyarrow_dataset()
    if "position" not in dataset.schema.names:
        return OpenLetters()
    # Letters of releases before 0.2 have no position, and nothing by which to read them again.
    of_open = pc.field("epoch").isin(sorted(committed - retried)) & pc.field("position").is_valid()
    lines = dataset.to_table(["epoch", "file", "position"], filter=of_open).to_pylist()
    letters = [
        line for line in lines if line["position"] > 0 or last_read.get(line["file"], line["epoch"]) <= line["epoch"]
    ]
    return OpenLetters(
        tuple(sorted({line["epoch"] for line in letters})),
        frozenset(line["file"] for line in letters if line["position"] == 0),
        len(letters),
    )


def rows_again(spark: SparkSession, path: str, files: Files, epochs: Sequence[int]) -> list[DataFrame]:
    """Rows of the letters of these epochs, by today's declaration, as `as_declared` gives them; ``path`` is the table.

    Letters of files are not among them: a file is read again where it lies.
    """
    lines = _in_order(read(spark, path).where(F.col("epoch").isin(list(epochs)) & (F.col("position") > 0)))
    rows = [_dead(lines.where(is_cut(F.col("text"))), files.schema, _CUT)]
    whole = lines.where(~is_cut(F.col("text")))
    if files.format == "json":
        return [*rows, json_parsed(whole, files)]
    rows.append(_dead(whole.where(F.isnull("header")), files.schema, _OTHER))
    for header in sorted(line.header for line in whole.select("header").distinct().collect() if line.header):
        part = whole.where(F.col("header") == header)
        parsed = _below(part, header, files)
        rows.append(_dead(part, files.schema, parsed) if isinstance(parsed, str) else parsed)
    return rows


def _below(lines: DataFrame, header: str, files: Files) -> DataFrame | str:
    if files.format == "parquet":
        return parquet_parsed(lines, header, files)
    return header_problem(header, files) or csv_parsed(lines, header, files)


def _in_order(letters: DataFrame) -> DataFrame:
    """Letters as `LINE_COLUMNS`, by epoch, file and position, and before all files that are read."""
    last_first = Window.partitionBy(F.lit(0)).orderBy(F.desc("epoch"), F.desc("file"))
    files = letters.select("epoch", "file").distinct().withColumn("file_rank", -F.row_number().over(last_first))
    return letters.join(F.broadcast(files), ["epoch", "file"]).select(
        F.col("file_rank").cast("int"),
        "file",
        "modified_ms",
        F.lit(None).cast("string").alias("member"),
        F.lit(0).cast("bigint").alias("block"),
        F.col("position").cast("bigint").alias("row"),
        "line",
        "text",
        "header",
    )


def _dead(lines: DataFrame, schema: Mapping[str, str], reason: str) -> DataFrame:
    """Lines as `as_declared` gives them, dead for one reason."""
    nulls = F.struct(*[F.lit(None).cast(kind).alias(f"r{i}") for i, kind in enumerate(schema.values())])
    rows = lines.select(*LINE_COLUMNS, nulls.alias("raw"), F.lit(reason).alias("malformed"))
    return as_declared(rows, schema)
