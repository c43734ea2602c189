"""A workload run as a pipeline, epoch by epoch: for `rivermeet bench`, and all that ``benchmarks/`` compares with it.

Each epoch's files are delivered before its clock starts. Then its sources are read, and its join is planned, computed,
audited, committed, folded and checked, by the same code and on the same engine as any other run's. The answer is
counted from what is committed, in the end. Held by ``tests/assets/cli/test_bench.py``.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.compute import field
from pyarrow.dataset import Dataset, dataset

from rivermeet.assets.bench.processor import watch_processor_time
from rivermeet.assets.bench.workloads import Workload
from rivermeet.assets.epoch.run import Outcome
from rivermeet.assets.epoch.side_by_side import SideBySide
from rivermeet.assets.project import Project
from rivermeet.infra.delta.io import read
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.engine.warm import status
from rivermeet.infra.settings import Settings, SettingsError
from rivermeet.pipelines import Node

BATCH = 2**18
"""Records that are delivered at a time."""
PHASES = ("plan", "compute", "audit", "commit", "fold")


def measure(workload: Workload, data: Path, settings: Settings, epochs: int | None = None) -> dict[str, Any]:
    """Run a workload in a fresh folder of the home.

    Parameters
    ----------
    data
        Folder of ``epoch_*.parquet``.
    epochs
        Cut of all records by arrival; None: as the files cut them.

    Returns
    -------
    dict
        ``rows_in``, ``rows_out``, ``final_rows``, ``checksum``; ``seconds_initial`` and ``seconds_per_epoch`` of the
        join, from plan to fold; per epoch its phases, what reading the sources took (``ingest``), the judging of its
        commit and fold (``checks``), all nodes from files to judged changelogs (``committed``), and with the folds that
        were due (``whole``), in seconds, whose ``processor`` time all nodes took (`assets.bench.processor`), the
        ``bytes`` that the join wrote, and the Spark ``jobs`` of all nodes,
        which a warm engine alone counts, and ``missed``, the checks that were not evaluated; ``bytes_written``
        in all epochs; ``peak_rss_mb`` of this process and the engine, as seen after each.
    """
    project = fresh_project(settings, workload.pipeline.name)
    private = project.settings
    lines: list[dict[str, Any]] = []
    rows_in = rows_out = peak = written = 0
    tables = Path(private.tables) / workload.pipeline.name / workload.result.name
    jobs = _jobs(settings)
    for records in epochs_of(data, epochs):
        rows_in += records.count_rows()
        _deliver(workload, records, Path(private.data), len(lines))
        with watch_processor_time(_engine(settings)) as processor:
            line = _epoch(project, workload)
        line["processor"] = {kind: round(seconds, 3) for kind, seconds in processor.items()}
        written, before = _bytes(tables), written
        jobs, earlier = _jobs(settings), jobs
        lines.append(line | {"bytes": written - before, "jobs": jobs - earlier})
        rows_out += line["rows"]
        peak = max(peak, _resident(settings))
    final_rows, checksum = _answer(project, workload)
    times = [sum(line.get(phase, 0.0) for phase in PHASES) for line in lines]
    later = times[1:] or times
    return {
        "workload": workload.pipeline.name.removeprefix("bench_"),
        "rows_in": rows_in,
        "rows_out": rows_out,
        "final_rows": final_rows,
        "checksum": checksum,
        "seconds_initial": round(times[0], 3),
        "seconds_per_epoch": round(sum(later) / len(later), 3),
        "epochs": lines,
        "bytes_written": written,
        "peak_rss_mb": peak,
        "partitions": workload.result.partitions,
    }


def private_settings(settings: Settings, name: str, **others: Any) -> Settings:
    """Those of the folder in the home that a benchmark is run in."""
    home = settings.home / "bench" / name
    return replace(settings, home=home, tables=str(home / "tables"), data=str(home / "data"), **others)


def fresh_project(settings: Settings, name: str, **others: Any) -> Project:
    """A project with such a folder, empty, and an open session of the user's engine."""
    private = private_settings(settings, name, **others)
    shutil.rmtree(private.home, ignore_errors=True)
    project = Project(private, Sessions(settings))
    project.sessions.open()
    return project


def epochs_of(data: Path, epochs: int | None) -> Iterator[Dataset]:
    """A workload's records as its files cut them, or cut into so many epochs by arrival."""
    files = sorted(data.glob("epoch_*.parquet"))
    if not files:
        raise SettingsError(f"{data} has no files epoch_*.parquet")
    if epochs is None:
        yield from (dataset(file) for file in files)
        return
    whole = dataset(files).to_table()
    bounds = [round(i * whole.num_rows / epochs) for i in range(epochs + 1)]
    yield from (dataset(whole.slice(a, b - a)) for a, b in pairwise(bounds))


def _deliver(workload: Workload, records: Dataset, folder: Path, number: int) -> None:
    """Write each side's records to its source's folder, numbers as the sources declare them.

    Piece by piece: what is delivered is no part of the memory that is measured.
    """
    for side, (source, columns) in enumerate(workload.sides.items()):
        read = workload.pipeline.node(source).source
        assert read is not None
        declared = read.reads.schema
        kinds = pa.schema([(name, pa.string() if declared[name] == "STRING" else pa.int64()) for name in columns])
        path = folder / source / f"{number:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        scanned = {"batch_size": BATCH, "batch_readahead": 1, "use_threads": False}
        with pq.ParquetWriter(path, kinds) as file:
            for rows in records.to_batches(columns=list(columns), filter=field("side") == side, **scanned):
                if rows.num_rows:
                    file.write_table(pa.Table.from_batches([rows]).cast(kinds))
    pa.default_memory_pool().release_unused()


@dataclass(frozen=True)
class Epoch:
    """One epoch of some nodes: its start on the monotonic clock, outcomes by node, and seconds with the folds."""

    start: float
    outcomes: Mapping[str, Outcome]
    whole: float

    def seconds_to_judge(self, nodes: Iterable[Node]) -> float:
        """Seconds from the start until the changelogs of these are judged; folds come later, or are not due."""
        return max(self.outcomes[node.name].ended for node in nodes) - self.start

    @property
    def missed(self) -> list[str]:
        """Checks that were not evaluated: a time without them means nothing."""
        parts = ((name, part) for name, one in self.outcomes.items() for part in (one.judgement, one.folded) if part)
        found = ((name, verdict) for name, part in parts for verdict in part.verdicts)
        return [f"{name}: {verdict.invariant.id}" for name, verdict in found if verdict.state == "not evaluated"]


def run_epoch(project: Project, nodes: Sequence[Node]) -> Epoch:
    """Run one epoch of the nodes, as any other run does."""
    start = time.monotonic()
    run = SideBySide(project, nodes, f"bench-{uuid4().hex}")
    outcomes = {node.name: run.outcome(node) for node in nodes}
    whole = time.monotonic() - start
    run.close()
    return Epoch(start, outcomes, whole)


def _epoch(project: Project, workload: Workload) -> dict[str, Any]:
    """One epoch of all nodes: seconds by phase, and the join's rows."""
    nodes = workload.pipeline.stored
    epoch = run_epoch(project, nodes)
    line: dict[str, Any] = {
        "rows": 0,
        "missed": epoch.missed,
        "fold": 0.0,
        "whole": round(epoch.whole, 3),
        "committed": round(epoch.seconds_to_judge(nodes), 3),
        "ingest": round(epoch.seconds_to_judge(node for node in nodes if node.source), 3),
    }
    outcome = epoch.outcomes[workload.result.name]
    if outcome.result is not None and outcome.judgement is not None:
        line |= {phase: round(seconds, 3) for phase, seconds in outcome.result.seconds.items()}
        line |= {"checks": round(outcome.judgement.seconds, 3), "rows": outcome.result.rows}
    if outcome.folded is not None:
        line["fold"] = round(outcome.folded.seconds, 3)
        line["checks"] = round(line["checks"] + outcome.folded.seconds_checks, 3)
    return line


def _answer(project: Project, workload: Workload) -> Sequence[int]:
    node, spark = workload.result, project.sessions.open()
    paths = project.paths(node)
    rows = read(spark, paths.table) if node.is_table else read(spark, paths.changelog).select("value.*")
    found, checksum = spark.sql(workload.answer, rows=rows).collect()[0]
    return found, (checksum or 0) % 2**63


def _engine(settings: Settings) -> int | None:
    """Process of the warm engine's JVM."""
    state = status(settings).state if settings.engine == "auto" else None
    return state.jvm_pid if state is not None else None


def _jobs(settings: Settings) -> int:
    """Spark jobs that the warm engine has run; its supervisor looks every half second."""
    if settings.engine != "auto":
        return 0
    time.sleep(1)
    return status(settings).jobs


def _resident(settings: Settings) -> int:
    """Megabytes that this process holds, with the engine, or with the driver that is its child."""
    process = psutil.Process()
    if settings.engine == "auto":
        return process.memory_info().rss // 2**20 + status(settings).memory_mb
    return sum(one.memory_info().rss for one in (process, *process.children(recursive=True))) // 2**20


def _bytes(folder: Path) -> int:
    """All that is stored: data, deletion vectors, the log, and what Hadoop writes beside each."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
