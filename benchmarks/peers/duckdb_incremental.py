"""DuckDB with tables of its own: an epoch is one transaction that changes only rows of touched keys.

    python -m benchmarks.peers.duckdb_incremental fk DATA SCRATCH

Written by hand for this one join: what an embedded engine can do where nobody asks for the records in between, for late
ones, or for more than one process.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import duckdb

from benchmarks.peers.line import epoch_files, print_line

CHANGES = """CREATE OR REPLACE TEMP TABLE changes AS
SELECT side, key, last.* FROM (
  SELECT side, key, arg_max(struct_pack(fk := fk, num := num, text := text, del := del), seq) AS last
  FROM read_parquet('{file}') GROUP BY side, key)"""
TABLES = {"orders": 0, "customers": 1}
TOUCHED = """CREATE OR REPLACE TEMP TABLE touched AS
SELECT key FROM changes WHERE side = 0
UNION SELECT o.key FROM orders o WHERE o.fk IN (SELECT key FROM changes WHERE side = 1)"""
JOINED = """SELECT o.key AS order_id, o.fk AS customer_id, o.num AS amount, o.text AS payload,
       c.num AS tier, c.text AS name
FROM orders o JOIN customers c ON c.key = o.fk"""


def main(workload: str, data: Path, scratch: Path) -> None:
    """All epochs, one after the other."""
    if workload != "fk":
        sys.exit("duckdb_incremental: written for fk alone")
    scratch.mkdir(parents=True, exist_ok=True)
    database = duckdb.connect(str(scratch / "tables.db"))
    database.execute("SET threads = 2")
    for table in TABLES:
        database.execute(f"CREATE TABLE {table} (key BIGINT PRIMARY KEY, fk BIGINT, num BIGINT, text VARCHAR)")
    seconds: list[float] = []
    for file in epoch_files(data):
        start = time.monotonic()
        database.execute("BEGIN")
        database.execute(CHANGES.format(file=file))
        for table, side in TABLES.items():
            mine = f"FROM changes WHERE side = {side}"
            database.execute(f"DELETE FROM {table} WHERE key IN (SELECT key {mine} AND del = 1)")
            database.execute(f"INSERT OR REPLACE INTO {table} SELECT key, fk, num, text {mine} AND del = 0")
        if not seconds:
            database.execute(f"CREATE TABLE result AS {JOINED}")
        else:
            database.execute(TOUCHED)
            database.execute("DELETE FROM result WHERE order_id IN (SELECT key FROM touched)")
            database.execute(f"INSERT INTO result {JOINED} WHERE o.key IN (SELECT key FROM touched)")
        database.execute("COMMIT")
        if not seconds:
            database.execute("CHECKPOINT")
        seconds.append(time.monotonic() - start)
    found = database.execute("SELECT count(*), sum(amount * (tier + 1)) FROM result").fetchone()
    assert found is not None
    print_line("DuckDB, incremental", workload, data, seconds, found, "one transaction an epoch, write-ahead log")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
