"""DuckDB without a state: every epoch reads all records so far and writes the whole result again, as a cron job would.

    python -m benchmarks.peers.duckdb_recompute {fk|ss|st|q3|q8|q20} DATA SCRATCH

The result is one Parquet file, on the disk when an epoch ends. What a record meets follows from its arrival (``seq``).
A record of ``ss`` is late 15 s behind the highest time that arrived before it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from benchmarks.nexmark.answers import CHECKSUMS, SQL
from benchmarks.peers.line import MODULUS, epoch_files, print_line, to_disk

LAST = """SELECT key, last.* FROM (
  SELECT key, arg_max(struct_pack(fk := fk, num := num, text := text, del := del), seq) AS last
  FROM records WHERE side = {side} GROUP BY key) WHERE last.del = 0"""
QUERIES = {
    "fk": f"""SELECT o.key AS order_id, o.fk AS customer_id, o.num AS amount, o.text AS payload,
               c.num AS tier, c.text AS name
        FROM ({LAST.format(side=0)}) o JOIN ({LAST.format(side=1)}) c ON c.key = o.fk""",
    "ss": """WITH timely AS (SELECT * FROM (
          SELECT *, max(ts) OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM records)
          WHERE before IS NULL OR before < ts + 15000)
        SELECT l.key, l.num AS impression, r.num AS click FROM timely l JOIN timely r
        ON l.side = 0 AND r.side = 1 AND l.key = r.key AND r.ts BETWEEN l.ts - 10000 AND l.ts + 10000""",
    "st": """SELECT f.key, f.num AS fact, CASE WHEN t.del = 0 THEN t.num END AS row,
               CASE WHEN t.del = 0 THEN t.text END AS text
        FROM (SELECT * FROM records WHERE side = 0) f
        ASOF LEFT JOIN (SELECT * FROM records WHERE side = 1) t ON t.key = f.key AND t.seq <= f.seq""",
} | SQL
ANSWERS = {
    "fk": "count(*), sum(amount * (tier + 1))",
    "ss": "count(*), sum(impression * 31 + click)",
    "st": "count(row), sum(fact * (row + 1))",
} | CHECKSUMS

AT_ONCE = 20_000_000
"""Records whose last ones fit into memory."""


def answer(workload: str, data: Path) -> tuple[int, int]:
    """Rows and checksum of all records, computed once; of many orders in parts, as the last record of each is kept."""
    database, files = duckdb.connect(), epoch_files(data)
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    parts = 1 + rows // AT_ONCE if workload == "fk" else 1
    found: list[tuple[int, int | None]] = []
    for part in range(parts):
        _view(database, files, f"side = 1 OR key % {parts} = {part}" if parts > 1 else "true")
        found += database.execute(f"SELECT {ANSWERS[workload]} FROM ({QUERIES[workload]})").fetchall()
    return sum(rows for rows, _ in found), sum(int(checksum or 0) for _, checksum in found) % MODULUS


def main(workload: str, data: Path, scratch: Path) -> None:
    """All epochs, one after the other."""
    scratch.mkdir(parents=True, exist_ok=True)
    database, result = duckdb.connect(), scratch / "result.parquet"
    database.execute("SET threads = 2")
    seconds: list[float] = []
    files = epoch_files(data)
    for epoch in range(1, len(files) + 1):
        start = time.monotonic()
        _view(database, files[:epoch])
        database.execute(f"COPY ({QUERIES[workload]}) TO '{result}' (FORMAT parquet, COMPRESSION zstd)")
        to_disk(result)
        seconds.append(time.monotonic() - start)
    found = database.execute(f"SELECT {ANSWERS[workload]} FROM read_parquet('{result}')").fetchone()
    assert found is not None
    print_line("DuckDB, recomputing", workload, data, seconds, found, "the whole result, fsync")


def _view(database: duckdb.DuckDBPyConnection, files: Sequence[Path], where: str = "true") -> None:
    names = [str(file) for file in files]
    database.execute(f"CREATE OR REPLACE VIEW records AS SELECT * FROM read_parquet({names}) WHERE {where}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
