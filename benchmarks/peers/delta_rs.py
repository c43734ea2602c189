"""Three MERGEs an epoch with delta-rs: both input tables and the result are Delta tables, written copy on write.

    python -m benchmarks.peers.delta_rs fk DATA SCRATCH

What changes of the result is found by DuckDB over the merged tables, for touched keys alone.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from benchmarks.peers.duckdb_incremental import CHANGES, JOINED, TABLES, TOUCHED
from benchmarks.peers.line import epoch_files, print_line

ENDED = """SELECT t.key AS order_id, r.* EXCLUDE (order_id), r.order_id IS NULL AS gone
FROM touched t LEFT JOIN ({joined} WHERE o.key IN (SELECT key FROM touched)) r ON r.order_id = t.key"""


def main(workload: str, data: Path, scratch: Path) -> None:
    """All epochs, one after the other."""
    if workload != "fk":
        sys.exit("delta_rs: written for fk alone")
    scratch.mkdir(parents=True, exist_ok=True)
    database, result = duckdb.connect(), str(scratch / "result")
    database.execute("SET threads = 2")
    seconds: list[float] = []
    for file in epoch_files(data):
        start = time.monotonic()
        database.execute(CHANGES.format(file=file))
        for table, side in TABLES.items():
            rows = f"SELECT key, fk, num, text, del = 1 AS gone FROM changes WHERE side = {side}"
            _merge(str(scratch / table), "key", database.sql(rows).to_arrow_table())
            files = [uri.removeprefix("file://") for uri in DeltaTable(str(scratch / table)).file_uris()]
            database.execute(f"CREATE OR REPLACE VIEW {table} AS SELECT * FROM read_parquet({files})")
        if not seconds:
            rows = f"SELECT *, false AS gone FROM ({JOINED})"
        else:
            database.execute(TOUCHED)
            rows = ENDED.format(joined=JOINED)
        _merge(result, "order_id", database.sql(rows).to_arrow_table())
        seconds.append(time.monotonic() - start)
    files = [uri.removeprefix("file://") for uri in DeltaTable(result).file_uris()]
    found = database.execute(f"SELECT count(*), sum(amount * (tier + 1)) FROM read_parquet({files})").fetchone()
    assert found is not None
    print_line("delta-rs MERGE", workload, data, seconds, found, "Delta tables, three commits an epoch")


def _merge(path: str, key: str, rows: pa.Table) -> None:
    """Put the rows into a table, and take those that are ``gone`` out of it."""
    columns = [name for name in rows.column_names if name != "gone"]
    if not DeltaTable.is_deltatable(path):
        write_deltalake(path, rows.filter(~pc.field("gone")).select(columns))
        return
    values = {name: f"s.{name}" for name in columns}
    merge = DeltaTable(path).merge(rows, f"t.{key} = s.{key}", source_alias="s", target_alias="t")
    merge.when_matched_delete("s.gone").when_matched_update(values, "NOT s.gone").when_not_matched_insert(
        values, "NOT s.gone"
    ).execute()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
