"""Spark and delta-rs commit to one table at once (``python -m tests.infra.delta.raced URL COMMITS``).

Every commit of rows brings a number of its own. Prints as JSON how many commits of each kind were acknowledged or
refused, and which numbers are missing from the table, or there without having been acknowledged.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import count
from threading import Event, Thread

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import functions as F

from rivermeet.infra.engine.session import session
from rivermeet.infra.settings import Settings

KINDS = ("append", "merge", "append", "merge", "optimize", "properties")


def race(path: str, commits: int) -> dict[str, object]:
    """So many commits by Spark, and as many by delta-rs as there is time for."""
    spark = session(Settings.from_env())
    spark.range(0, 1).withColumnRenamed("id", "n").write.format("delta").save(path)
    acknowledged: set[int] = {0}
    done: Counter[str] = Counter()
    ended = Event()

    def by_delta_rs() -> None:
        for n in count(1_000_001):
            # Without a break no MERGE comes through: it reads what each of these appends to.
            if ended.wait(5 if n % 10 == 0 else 0.25):
                return
            try:
                write_deltalake(path, pa.table({"n": pa.array([n], pa.int64())}), mode="append")
            except DeltaError:
                done["delta-rs refused"] += 1
            else:
                acknowledged.add(n)
                done["delta-rs append"] += 1

    other = Thread(target=by_delta_rs)
    other.start()
    for n in range(1, commits + 1):
        kind = KINDS[n % len(KINDS)]
        row = spark.range(n, n + 1).withColumnRenamed("id", "n")
        try:
            if kind == "append":
                row.write.format("delta").mode("append").save(path)
            elif kind == "merge":
                new = row.withColumnRenamed("n", "new")
                merging = new.mergeInto(f"delta.`{path}`", F.expr("n = new"))
                merging.whenMatched().delete().whenNotMatched().insert({"n": F.col("new")}).merge()
            elif kind == "optimize":
                spark.sql(f"OPTIMIZE delta.`{path}`")
            else:
                spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('raced.n' = '{n}')")
        except Exception:  # Delta's conflicts have no class in common
            done[f"spark {kind} refused"] += 1
        else:
            done[f"spark {kind}"] += 1
            if kind in ("append", "merge"):
                acknowledged.add(n)
    ended.set()
    other.join()
    there = Counter(row.n for row in spark.read.format("delta").load(path).collect())
    return {
        "done": done,
        "versions": DeltaTable(path).version(),
        "lost": sorted(acknowledged - set(there)),
        "not acknowledged": sorted(set(there) - acknowledged),
        "doubled": sorted(n for n, times in there.items() if times > 1),
    }


if __name__ == "__main__":
    print(json.dumps(race(sys.argv[1], int(sys.argv[2]))))
