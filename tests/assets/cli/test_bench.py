"""The benchmarks' workloads give the answer of plain pandas, however they are cut."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rivermeet.assets.bench.processor import watch_processor_time
from rivermeet.assets.bench.run import measure
from rivermeet.assets.bench.workloads import WORKLOADS
from rivermeet.infra.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def records(workload: str, count: int = 600) -> pd.DataFrame:
    """Both sides in order of arrival; few keys, so that they meet."""
    rng = np.random.default_rng(7)
    seq = np.arange(count)
    late = np.where(rng.random(count) < 0.1, rng.integers(1, 4_000, count), 0)
    return pd.DataFrame(
        {
            "seq": seq,
            "ts": 1_700_000_000_000 + seq * (100 if workload == "ss" else 1) - late,
            "side": rng.integers(0, 2, count),
            "key": rng.integers(0, 40, count),
            "fk": rng.integers(0, 40, count),
            "num": rng.integers(0, 10, count),
            "text": [f"t{n}" for n in seq],
            "del": (rng.random(count) < (0.0 if workload == "ss" else 0.1)).astype("int8"),
        }
    )


def answer(workload: str, all_records: Any) -> Sequence[int]:
    """Rows and checksum."""
    left, right = (all_records[all_records["side"] == side] for side in (0, 1))
    if workload == "fk":
        orders, customers = (side.groupby("key").tail(1).query("`del` == 0") for side in (left, right))
        both = orders.merge(customers, left_on="fk", right_on="key")
        return len(both), int((both["num_x"] * (both["num_y"] + 1)).sum())
    if workload == "ss":
        both = left.merge(right, on="key")
        near = both[(both["ts_x"] - both["ts_y"]).abs() <= 10_000]
        return len(near), int((near["num_x"] * 31 + near["num_y"]).sum())
    facts = left[left["del"] == 0]
    both = facts.merge(right, on="key").query("seq_y < seq_x").sort_values("seq_y").groupby("seq_x").tail(1)
    hits = both[both["del_y"] == 0]
    return len(hits), int((hits["num_x"] * (hits["num_y"] + 1)).sum())


@pytest.mark.prove
@pytest.mark.parametrize(("workload", "epochs"), [("ss", None), ("fk", None), ("fk", 1), ("st", None)])
def test_the_answer_is_that_of_pandas(settings: Settings, tmp_path: Path, workload: str, epochs: int | None) -> None:
    given = records(workload)
    if workload == "st":
        given.loc[given["side"] == 0, "del"] = 0
    for number, part in enumerate(np.array_split(np.arange(len(given)), 3)):
        given.iloc[part].to_parquet(tmp_path / f"epoch_{number:03d}.parquet")
    line: dict[str, Any] = measure(WORKLOADS[workload](), tmp_path, settings, epochs)
    assert (line["final_rows"], line["checksum"]) == tuple(answer(workload, given))
    assert line["rows_in"] == len(given) and len(line["epochs"]) == (epochs or 3)
    assert line["rows_out"] == sum(epoch["rows"] for epoch in line["epochs"]) >= line["final_rows"]
    for epoch in line["epochs"]:
        # Each node's commit alone takes one; none are seen without an engine that counts them.
        assert epoch["jobs"] >= 3 or settings.engine != "auto"
        assert {"ingest", "plan", "compute", "audit", "commit", "fold", "checks"} <= set(epoch)
        assert not epoch["missed"]
        of_engine = {"tasks", "compilers", "garbage", "requests"} if settings.engine == "auto" else set()
        assert set(epoch["processor"]) == of_engine | {"this process"} and all(
            s >= 0 for s in epoch["processor"].values()
        )
    assert line["bytes_written"] > 0 and line["peak_rss_mb"] > 0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the kernel shows no threads")
def test_processor_time_of_threads_that_have_ended_counts() -> None:
    program = """
import threading, time
def work():
    while time.thread_time() < 1: pass
print(flush=True)
thread = threading.Thread(target=work, name="Executor task")
thread.start(); thread.join()
input()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with watch_processor_time(process.pid) as found:
            process.stdout.readline()
            time.sleep(3)
        process.communicate(b"\n")
    assert 0.4 < sum(found.values()) - found["this process"] < 1.3
