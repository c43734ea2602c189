"""Dead letters of rows of files, parsed again by the current declaration (``infra/sources/source_step.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from rivermeet.infra.delta.io import read
from rivermeet.infra.sources.declared_types import declare, no_text
from rivermeet.infra.sources.files.csv import header_problem, parse_csv
from rivermeet.infra.sources.files.json import parse_json_lines
from rivermeet.infra.sources.files.parquet import parse_parquet_rows
from rivermeet.infra.sources.row_to_record import is_cut
from rivermeet.pipelines import Files

GONE = "the file cannot be read again, because it is no longer among the files of the source; deliver it again"
_OTHER = "the row was a line of JSON; its source reads another format now"
_CUT = "the row is not kept whole and cannot be read again; deliver it in a new file"


def rows_again(spark: SparkSession, path: str, files: Files, epochs: Sequence[int]) -> list[DataFrame]:
    """Rows of the letters of these epochs, by the current declaration, as from `as_declared`; ``path`` is the table.

    Letters of files are not included: the file itself is read again.
    """
    lines = _in_order(read(spark, path).where(F.col("epoch").isin(list(epochs)) & (F.col("position") > 0)))
    rows = [_dead(lines.where(is_cut(F.col("text"))), files.schema, _CUT)]
    whole = lines.where(~is_cut(F.col("text")))
    if files.format == "json":
        return [*rows, parse_json_lines(whole, files)]
    rows.append(_dead(whole.where(F.isnull("header")), files.schema, _OTHER))
    for header in sorted(line.header for line in whole.select("header").distinct().collect() if line.header):
        part = whole.where(F.col("header") == header)
        parsed = _below(part, header, files)
        rows.append(_dead(part, files.schema, parsed) if isinstance(parsed, str) else parsed)
    return rows


def _below(lines: DataFrame, header: str, files: Files) -> DataFrame | str:
    if files.format == "parquet":
        return parse_parquet_rows(lines, header, files)
    return header_problem(header, files) or parse_csv(lines, header, files)


def _in_order(letters: DataFrame) -> DataFrame:
    """Letters as `LINE_COLUMNS`, by epoch, file and position, and before all files that are read."""
    last_first = Window.partitionBy(F.lit(0)).orderBy(F.desc("epoch"), F.desc("file"))
    files = letters.select("epoch", "file").distinct().withColumn("file_rank", -F.row_number().over(last_first))
    return letters.join(F.broadcast(files), ["epoch", "file"]).select(
        F.col("file_rank").cast("int"),
        "file",
        "modified_ms",
        no_text().alias("member"),
        F.lit(0).cast("bigint").alias("block"),
        F.col("position").cast("bigint").alias("row"),
        "line",
        "text",
        "header",
    )


def _dead(lines: DataFrame, schema: Mapping[str, str], reason: str) -> DataFrame:
    """Lines as `as_declared` gives them, dead for one reason."""
    return declare(lines, schema, [F.lit(None).cast(kind) for kind in schema.values()], F.lit(reason))
