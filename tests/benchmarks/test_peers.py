"""Every peer gives the workload's answer, which is worked out here record by record; a wrong one is shown as wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.data import WORKLOADS, Size, write
from benchmarks.nexmark.queries import QUERIES
from benchmarks.peers import duckdb_recompute
from benchmarks.peers.kafka_streams import ABSENT
from benchmarks.side_by_side import peers, tabulate
from rivermeet.infra.settings import PROJECT, Settings

SMALL = Size(left=2_000, right=200, epochs=2, changes=100)
MINE: dict[str, Any] = {"workload": "fk", "peak_rss_mb": 1, "final_rows": 10, "checksum": 7}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    for workload in WORKLOADS:
        write(workload, folder / workload, SMALL)
    return folder


def records(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def answer(workload: str, arrived: list[dict[str, Any]]) -> tuple[int, int]:
    """Rows and checksum, one record after the other."""
    if workload == "fk":
        tables: list[dict[int, Any]] = [{}, {}]
        for x in arrived:
            tables[x["side"]].pop(x["key"], None)
            if not x["del"]:
                tables[x["side"]][x["key"]] = x
        pairs = [(o["num"], tables[1][o["fk"]]["num"]) for o in tables[0].values() if o["fk"] in tables[1]]
        return len(pairs), sum(amount * (tier + 1) for amount, tier in pairs)
    if workload == "st":
        rows: dict[int, int | None] = {}
        hits = []
        for x in arrived:
            if x["side"]:
                rows[x["key"]] = None if x["del"] else x["num"]
            elif (row := rows.get(x["key"])) is not None:
                hits.append(x["num"] * (row + 1))
        return len(hits), sum(hits)
    if workload in QUERIES:
        return nexmark(workload, arrived)
    time, taken, found = -1, ([], []), []
    for x in arrived:
        if time < x["ts"] + 15_000:
            met = [y for y in taken[1 - x["side"]] if y["key"] == x["key"] and abs(y["ts"] - x["ts"]) <= 10_000]
            found += [(y, x) if x["side"] else (x, y) for y in met]
            taken[x["side"]].append(x)
        time = max(time, x["ts"])
    return len(found), sum(31 * left["num"] + right["num"] for left, right in found)


def nexmark(query: str, arrived: list[dict[str, Any]]) -> tuple[int, int]:
    """Rows and checksum of one of NEXMark's queries."""
    left, right = ([x for x in arrived if x["side"] == side] for side in (0, 1))
    by_id = {x["id"]: x for x in (left if query == "q8" else right)}
    found = []
    if query == "q3":
        for auction in (x for x in left if x["category"] == 10):
            if (seller := by_id.get(auction["seller"])) and seller["state"] in ("OR", "ID", "CA"):
                letters = len(seller["name"]) + ord(seller["city"][0]) + ord(seller["state"][1])
                found.append(auction["id"] * letters)
    elif query == "q8":
        for auction in right:
            if (seller := by_id.get(auction["seller"])) and seller["ts"] // 10_000 == auction["ts"] // 10_000:
                found.append(auction["reserve"] % 1013 * (len(seller["name"]) * 128 + ord(seller["name"][0])))
    else:
        for bid in left:
            auction = by_id.get(bid["auction"])
            if auction and auction["category"] == 10 and auction["seq"] < bid["seq"]:
                length = bid["ts"] - auction["ts"] + len(bid["url"])
                found.append(bid["price"] % 1009 * (auction["reserve"] % 1013) + length)
    return len(found), sum(found)


@pytest.mark.parametrize(
    ("module", "workload"),
    [
        *(("duckdb_recompute", workload) for workload in WORKLOADS),
        ("duckdb_incremental", "fk"),
        ("delta_rs", "fk"),
        pytest.param("spark_recompute", "fk", marks=pytest.mark.prove),
    ],
)
def test_a_peer_is_right(data: Path, tmp_path: Path, settings: Settings, module: str, workload: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.peers.{module}", workload, str(data / workload), str(tmp_path / "s")]
    env = os.environ | settings.environ()
    run = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=True, timeout=300)
    line = json.loads(run.stdout)
    assert (line["final_rows"], line["checksum"]) == answer(workload, records(data / workload))
    assert len(line["epochs"]) == len(list((data / workload).glob("*.parquet")))


@pytest.mark.prove
@pytest.mark.parametrize(("workload", "idle"), [("fk", 0), ("st", 3_000)])
def test_kafka_streams_answers(data: Path, tmp_path: Path, workload: str, idle: int) -> None:
    """Its topics race each other, so that a few rows may differ; more would be a mistake of ours.

    On a busy machine facts can be a whole fetch ahead of their table, hence the wait; a benchmark has none.
    """
    module = ("-m", "benchmarks.peers.kafka_streams", "--idle", str(idle), "eos")
    command = [sys.executable, *module, workload, str(data / workload), str(tmp_path)]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=500)
    if run.returncode == ABSENT:
        pytest.skip(run.stderr.strip())
    assert run.returncode == 0, run.stderr
    line, (rows, _) = json.loads(run.stdout), answer(workload, records(data / workload))
    assert abs(line["final_rows"] - rows) <= rows // 20
    assert line["rows_in"] == len(records(data / workload))
    assert not list(tmp_path.iterdir())


def test_one_that_does_not_run_is_absent_and_one_that_is_wrong_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import side_by_side

    monkeypatch.setattr(side_by_side, "PEERS", (side_by_side.Peer("Nothing", "no_such_peer"),))
    (absent,) = peers("fk", tmp_path)
    assert "no_such_peer" in absent["absent"]
    epochs = [{"compute": 2.0, "checks": 1.0}, {"compute": 1.0, "checks": 3.0}]
    wrong = MINE | {"peer": "Other", "seconds_initial": 4.0, "seconds_per_epoch": 0.5, "final_rows": 12}
    lines = tabulate(MINE | {"epochs": epochs}, [absent, wrong]).splitlines()
    assert ["absent" in line for line in lines].count(True) == 1
    (line,) = (line for line in lines if line.strip().startswith("Other"))
    assert line.split() == ["Other", "4.00", "2.00", "0.50", "0.50", "1", "WRONG,", "+2", "rows"]


def test_where_all_is_one_epoch_no_other_is_lines() -> None:
    other = MINE | {"peer": "Other", "seconds_initial": 4.0, "seconds_per_epoch": None}
    lines = tabulate(MINE | {"epochs": [{"compute": 2.0, "checks": 1.0}]}, [other]).splitlines()
    (line,) = (line for line in lines if line.strip().startswith("Other"))
    assert line.split() == ["Other", "4.00", "2.00", "1", "exact"]


def test_the_answer_of_many_orders_is_found_in_parts(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = duckdb_recompute.answer("fk", data / "fk")
    monkeypatch.setattr(duckdb_recompute, "AT_ONCE", 700)
    assert duckdb_recompute.answer("fk", data / "fk") == whole == answer("fk", records(data / "fk"))
