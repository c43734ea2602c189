"""Dead letters of a Delta table, parsed again from the stored rows, because VACUUM may have removed the files.

    epoch 1   version 3   {"id":"a","n":"x"}     column 'n': 'x' is not INT
    epoch 4   retries epoch 1, with n STRING     version 3 is a record now, and comes after all that there is

Held by ``tests/infra/sources/delta/test_letters.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermeet.infra.delta.io import read
from rivermeet.infra.sources.declared_types import declare, no_text
from rivermeet.infra.sources.delta.rows import AGAIN, place, raw_columns
from rivermeet.infra.sources.files.parquet import CLOCKS
from rivermeet.infra.sources.places import no_column
from rivermeet.pipelines import DeltaTable

_HEADER = "version BIGINT, time BIGINT, change STRING, schema STRING"


def letters_again(spark: SparkSession, path: str, epochs: Sequence[int], table: DeltaTable) -> Iterator[DataFrame]:
    """Rows of the letters of these epochs, by schema, as `as_declared` gives them; ``path`` is their table."""
    letters = read(spark, path).where(F.col("epoch").isin(list(epochs)) & (F.col("position") > 0))
    # A letter of files or a topic that the source read before cannot be retried: it has no row of a table.
    of_tables = letters.select("*", F.from_json("header", _HEADER).alias("h")).where(F.isnotnull("h.schema"))
    number = F.row_number().over(Window.partitionBy(F.lit(0)).orderBy("epoch", "file", "position"))
    numbered = of_tables.select("*", number.alias("number"))
    for line in sorted(numbered.select("h.schema").distinct().collect()):
        yield _below(numbered.where(F.col("h.schema") == line.schema), line.schema, table)


def _below(letters: DataFrame, schema: str, table: DeltaTable) -> DataFrame:
    kind = T.StructType.fromJson(json.loads(schema))
    names = {field.name.lower() for field in kind}
    lacking = next((name for name in table.value_columns if name.lower() not in names), None)
    added = [T.StructField(name, T.StringType()) for name in table.value_columns if name.lower() not in names]
    whole = T.StructType([*kind, *added])
    parsed = letters.select("*", F.from_json("text", whole, CLOCKS).alias("data"))
    order = [F.lit(None).cast(table.schema[name]) for name in table.order]
    return declare(
        parsed,
        table.schema,
        raw_columns(table, whole, "data", F.col("h.version"), F.col("h.time"), F.col("h.change")),
        F.lit(None if lacking is None else no_column(lacking, kind.names)).cast("string"),
        file_rank=F.lit(AGAIN),
        member=no_text(),
        block=F.lit(0).cast("bigint"),
        row=place(order, F.lit(0), F.col("number"), no_text()),
    )
