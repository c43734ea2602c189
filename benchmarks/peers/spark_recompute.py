"""Spark recomputing: every epoch joins the last records of all keys once more and overwrites a Delta table.

    python -m benchmarks.peers.spark_recompute fk DATA SCRATCH

On the same warm engine as Rivermeet, so that the two differ in what they do and in nothing else.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers.line import epoch_files, print_line
from rivermeet.infra.engine.session import release, session
from rivermeet.infra.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(workload: str, data: Path, scratch: Path) -> None:
    """All epochs, one after the other."""
    if workload != "fk":
        sys.exit("spark_recompute: written for fk alone")
    from pyspark.sql import functions as F

    spark, result = session(Settings.from_env()), str(scratch / "result")
    seconds: list[float] = []
    files = [str(file.absolute()) for file in epoch_files(data)]
    for epoch in range(1, len(files) + 1):
        start = time.monotonic()
        records = spark.read.parquet(*files[:epoch])
        joined = _last(records, 0).alias("o").join(_last(records, 1).alias("c"), F.expr("c.key = o.fk"))
        rows = joined.selectExpr(
            "o.key AS order_id",
            "o.fk AS customer_id",
            "o.num AS amount",
            "o.text AS payload",
            "c.num AS tier",
            "c.text AS name",
        )
        rows.write.format("delta").mode("overwrite").save(result)
        seconds.append(time.monotonic() - start)
    answer = spark.read.format("delta").load(result).selectExpr("count(*)", "sum(amount * (tier + 1))").collect()[0]
    print_line("Spark, recomputing", workload, data, seconds, answer, "the whole result, a Delta commit")
    release()


def _last(records: DataFrame, side: int) -> DataFrame:
    """The last record of each key that is not a delete."""
    from pyspark.sql import functions as F

    last = F.max_by(F.struct("fk", "num", "text", "del"), F.col("seq")).alias("last")
    return records.where(f"side = {side}").groupBy("key").agg(last).select("key", "last.*").where("del = 0")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
