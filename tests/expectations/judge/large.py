"""A process that judges a large table and prints what that took: ``python -m tests.expectations.judge.large``.

The environment gives the home, with the tables of `made` in it, and what judging may take.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import duckdb
from deltalake import convert_to_deltalake

from rivermeet.assets.project import Project
from rivermeet.assets.quality.relations.parts import lines, table_part
from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.judge.duck import InProcess
from rivermeet.expectations.results import Judged, Relation
from rivermeet.expectations.rules.verify import VERIFY
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Pipeline

RECORDS = 10_000_000
WRONG = 7_654_321
"""The key whose row in the table is another one than its record."""

_FILES = Files("none/*.csv", "csv", {"id": "BIGINT", "customer": "BIGINT", "note": "STRING", "at": "BIGINT"})
orders = Pipeline("large").table("orders", _FILES, key=["id"], value=["customer", "note"], timestamp="at", partitions=4)
_CUSTOMER, _NOTE = "CAST(hash(i) % 100000 AS BIGINT)", "'note of order ' || i"
_TABLES = {
    "changelog": f"""SELECT {{'id': i}} AS key, {{'customer': {_CUSTOMER}, 'note': {_NOTE}}} AS value,
        1000 + i AS timestamp, CAST(i % 4 AS INT) AS "partition", i // 4 AS "offset", CAST(1 AS BIGINT) AS epoch""",
    "table": f"""SELECT i AS id, {_CUSTOMER} AS customer, {_NOTE} || CASE WHEN i = {WRONG} THEN '!' ELSE '' END AS note,
        1000 + i AS _timestamp, CAST(i % 4 AS INT) AS _partition, i // 4 AS _offset""",
}


def made(home: Path) -> None:
    """A changelog of ten million records and its table: a file each, with groups of a million rows."""
    for name, query in _TABLES.items():
        path = home / name
        path.mkdir(parents=True)
        with duckdb.connect(config={"memory_limit": "1gb", "temp_directory": str(home / "making")}) as connection:
            file = str(path / "part-0.parquet").replace("'", "''")
            how = "FORMAT parquet, ROW_GROUP_SIZE 1_000_000"
            connection.execute(f"COPY ({query} FROM range({RECORDS}) t(i)) TO '{file}' ({how})")
        convert_to_deltalake(str(path))


def _judged(home: Path) -> Judged:
    def relation(name: str, where: str = "true") -> Relation:
        rows, is_folded = table_part(str(home / name), name, 0), name == "table"
        return Relation(f"SELECT * FROM {{table}} WHERE {where}", {"table": rows}, ["id"] * is_folded, is_folded)

    sizes = {"before": "BIGINT", "after": "BIGINT"}
    relations = {
        **dict.fromkeys(("changelog", "rows", "recomputed"), lambda: relation("changelog")),
        **dict.fromkeys(("table", "now"), lambda: relation("table")),
        "was": lambda: relation("table", "false"),
        "sizes": lambda: lines(sizes, [(0, RECORDS)]),
        "bounds": lambda: lines({"partition": "INT", "first_offset": "BIGINT"}, []),
    }
    return Judged(relations, {}, "whole")


def _memory(kind: str) -> int:
    """Bytes of this process: ``VmHWM``, what it had at most, or ``RssAnon``, what it has besides mapped files."""
    found = re.search(rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def _watched(folder: Path, ended: Event, sizes: list[int]) -> None:
    while not ended.wait(0.1):
        with suppress(FileNotFoundError):
            sizes.append(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))


def judged(settings: Settings) -> dict[str, Any]:
    """What judging found and took."""
    quality = Project(settings, Sessions(settings)).quality
    loaded, before = _memory("RssAnon"), _memory("VmHWM")
    ended, sizes = Event(), [0]
    watching = Thread(target=_watched, args=(quality.spill, ended, sizes))
    watching.start()
    rules = [*invariants_of(orders), VERIFY]
    results = InProcess(quality.memory, quality.spill).evaluate(orders, rules, _judged(settings.home))
    ended.set()
    watching.join()
    return {
        "states": {r.invariant.id: r.error or r.state for r in results},
        "sample": {r.invariant.id: r.sample for r in results if r.sample},
        "loaded": loaded,
        "added": _memory("VmHWM") - before,
        "spilled": max(sizes),
    }


if __name__ == "__main__":
    print(json.dumps(judged(Settings.from_env())))
