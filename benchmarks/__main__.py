"""``make bench``: the workloads as pipelines, phase by phase, beside what users would pick instead.

    python -m benchmarks [fk|ss|st|q3|q8|q20 …] [--left N] [--right N] [--epochs N] [--changes N] [--pieces N]
                         [--recent SHARE] [--hot SHARE] [--cut N] [--cache] [--no-peers]

q3, q8 and q20 are NEXMark's queries (``benchmarks/nexmark``). A first small run warms the engine and is not printed.
No time is printed for an answer that is not the seeded one's known checksum or, of other sizes, DuckDB's. Lines of
JSON are added to ``bench/results.jsonl`` in the home, and ``bench/page.html`` draws them; the tables compare with the
run before of the same records.

What an epoch stands on is measured right after the epochs, on the warm engine, with Delta's own SQL and nothing of ours
around it: one empty append, and one bare MERGE of as many rows as the last epoch changed, on a copy of the result's
table. The second of two counts, with a copy of its own: the first has warmed up.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.data import Size, recut, write
from benchmarks.nexmark.queries import QUERIES
from benchmarks.page import write_page
from benchmarks.peers import duckdb_recompute
from benchmarks.side_by_side import peers, tabulate
from benchmarks.stored import ALL_PHASES, alike, backlog_and_changes, middle, read_lines, results_file, store
from rivermeet.assets.bench.run import PHASES, measure, private_settings
from rivermeet.assets.bench.workloads import WORKLOADS, Workload
from rivermeet.assets.cli.show.rows import table
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.engine.session import session
from rivermeet.infra.settings import Settings
from rivermeet.pipelines.expressions import quote

WARM_UP = Size(left=20_000, right=2_000, epochs=3, changes=2_000)
NAMES = sorted([*WORKLOADS, *QUERIES])
CHECKED = ("audit", "checks")
KNOWN = {
    ("fk", Size()): (987_460, 27217525616),
    ("ss", Size()): (601_224, 10320770309903392),
    # DuckDB takes ten minutes for the hot key's; these are of its query with buckets, as in
    # joins/stream_stream/time_buckets.py.
    ("ss", Size(hot=0.0)): (416_565, 7159835528971143),
    ("ss", Size(hot=0.3)): (596_320, 10245834574629502),
    ("st", Size()): (980_399, 244449220369),
}
"""Rows and checksum: DuckDB, Polars and delta-rs agree on them."""


def floor(workload: Workload, settings: Settings, scratch: Path) -> Mapping[str, float]:
    """Seconds of an ``append`` of no rows and, where the result is a table, of a ``merge``.

    Parameters
    ----------
    settings
        Under which the workload has just been run.
    scratch
        Folder for the copy.
    """
    result = workload.result
    paths = NodeTables(private_settings(settings, workload.pipeline.name).tables, workload.pipeline.name, result.name)
    spark, found = session(settings), last_note(paths.changelog)
    assert found is not None, paths.changelog
    rows = read(spark, paths.changelog).where(f"epoch = {found[1].epoch}")
    empty = rows.where("false").drop("key", "value", "trigger")
    log = str(scratch / "log")
    seconds = {"append": _second(lambda: empty.write.format("delta").mode("append").save(log))}
    if result.is_table:
        # Each on a copy of its own: what one has merged lies together for the next.
        copies = [str(shutil.copytree(paths.table, scratch / name)) for name in ("table", "same")]
        changed = read(spark, copies[0]).join(rows.select("key.*").distinct(), list(result.key), "left_semi")
        changed.write.format("delta").save(str(scratch / "changed"))
        on = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in result.key)
        source = f"delta.{quote(str(scratch / 'changed'))}"

        def merge() -> None:
            spark.sql(
                f"MERGE INTO delta.{quote(copies.pop())} t USING {source} s ON {on} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            ).collect()

        seconds["merge"] = _second(merge)
    return seconds


def _second(run: Callable[[], object]) -> float:
    run()
    start = time.monotonic()
    run()
    return round(time.monotonic() - start, 3)


def phases(line: dict[str, Any], before: Mapping[str, Any] | None) -> str:
    """A table of seconds: the first epoch, the middle of those after it, and that of the run before."""
    first, *_ = line["epochs"]
    now, then = middle(line), middle(before) if before else {}
    rows = [[name, f"{first.get(name, 0.0):.2f}", f"{now[name]:.2f}", *_since(now, then, name)] for name in ALL_PHASES]
    checks = sum(now[name] for name in CHECKED)
    share = checks / (sum(now[name] for name in PHASES) - now["audit"])
    jobs = median(epoch.get("jobs", 0) for epoch in backlog_and_changes(line)[1])
    floors = "".join(f"; one {what} takes {seconds:.2f} s" for what, seconds in line["floor"].items())
    return (
        f"{line['workload']}: {line['rows_in']:,} records, {line['final_rows']:,} rows, checksum {line['checksum']}\n"
        f"{table(['seconds', 'first epoch', 'an epoch', 'the run before', 'ratio'], rows)}\n"
        f"all checks (audit and checks) take {share:.2f} of the rest of the epoch; {jobs:g} Spark jobs{floors}\n"
        f"{_processor_time(line)}"
    )


def _processor_time(line: dict[str, Any]) -> str:
    """Whose processor time the first epoch was, and the middle one after it."""
    first, later = line["epochs"][0]["processor"], [epoch["processor"] for epoch in backlog_and_changes(line)[1]]
    rows = [
        [kind, f"{first[kind]:.1f}", f"{median(one.get(kind, 0.0) for one in later):.1f}"] for kind in sorted(first)
    ]
    return table(["seconds of processor time, all nodes", "first epoch", "an epoch"], rows)


def _since(now: Mapping[str, float], then: Mapping[str, float], name: str) -> tuple[str, str]:
    if not then:
        return "", ""
    return f"{then[name]:.2f}", f"{now[name] / then[name]:.2f}" if then[name] else ""


@click.command()
@click.argument("workloads", nargs=-1, type=click.Choice(NAMES))
@click.option("--left", default=Size().left, show_default=True, help="Orders, records a side, or NEXMark's events.")
@click.option("--right", default=Size().right, show_default=True, help="Customers, or keys.")
@click.option("--epochs", default=Size().epochs, show_default=True)
@click.option("--changes", default=Size().changes, show_default=True, help="Of fk and NEXMark, in each epoch.")
@click.option("--pieces", default=1, show_default=True, help="Epochs in which the orders of fk arrive at first.")
@click.option(
    "--recent", type=click.FloatRange(0, 1), help="Share of fk's orders and customers, the newest, that change."
)
@click.option("--hot", type=click.FloatRange(0, 1), help="Share of ss with one key; 0 for the same without.")
@click.option("--cut", type=click.IntRange(1), help="Run all records in so many epochs.")
@click.option("--cache", is_flag=True, help="Net changes only, where the join is one of tables.")
@click.option("--peers/--no-peers", "beside", default=True, help="Run the others as well.")
def main(
    workloads: tuple[str, ...],
    left: int,
    right: int,
    epochs: int,
    changes: int,
    pieces: int,
    recent: float | None,
    hot: float | None,
    cut: int | None,
    cache: bool,
    beside: bool,
) -> None:
    """Warm up, measure, check the answers, print."""
    settings = Settings.from_env()
    size = Size(left, right, epochs, changes, hot=hot, pieces=pieces, recent=recent)
    results = results_file(settings)
    for workload in workloads or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            warm, data = Path(folder) / "warm", Path(folder) / "data"
            write(workload, warm, WARM_UP)
            write(workload, data, size)
            if cut is not None:
                recut(data, cut)
            made = WORKLOADS[workload](cache) if workload in WORKLOADS else QUERIES[workload]()
            measure(made, warm, settings)
            line = measure(made, data, settings)
            line["floor"] = floor(made, settings, Path(folder) / "floor")
            wanted = KNOWN.get((workload, size)) or duckdb_recompute.answer(workload, data)
            if (line["final_rows"], line["checksum"]) != wanted:
                sys.exit(f"{workload}: {line['final_rows']} rows, checksum {line['checksum']}; must be {wanted}")
            if missed := [one for epoch in line["epochs"] for one in epoch["missed"]]:
                sys.exit(f"{workload}: checks were not evaluated, their time means nothing: {', '.join(missed)}")
            others = list(peers(workload, data)) if beside else []
        same = {"at": int(time.time()), "size": vars(size), "cache": cache}
        line = {"peer": "Rivermeet", **line, **same}
        before = alike(read_lines(results), line)
        store(results, ({**one, **same} for one in (line, *others)))
        print(phases(line, before[-1] if before else None), tabulate(line, others), sep="\n\n", end="\n\n")
    write_page(results.with_name("page.html"), read_lines(results))
    print(f"stored in {results}, drawn in {results.with_name('page.html')}")


if __name__ == "__main__":
    main()
