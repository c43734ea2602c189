"""``make bench``: ten small nodes, one reading the other, a hundred new records in each source: what a run costs.

    python -m benchmarks.chain [--runs N] [--records N] [--wide] [--before CHECKOUT]

| run | is |
|---|---|
| 1 | the first of all, in an engine that has just started; its tables are made |
| 2 and later | the same with new records; the middle one is the figure of a scheduled run |

Each run is `rivermeet run` in a process of its own, with its imports, Dagster's history, judging and folds. Beside the
seconds stand what it asked of the engine and what one empty action and one commit of no rows take in that engine: the
floor that the figure stands on. The joined table is compared with one made of the same records in plain Python; where a
row differs, no time is printed. ``--wide`` adds forty nodes: four chains of ten joins each below the joined table.

``--before`` names a checkout of another version, with its own ``.venv`` or none. It gets the same records, a home and
an engine of its own, and each of its runs follows the one of this version, as the speed of a machine may double within
an hour.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click

from benchmarks.stored import results_file, store
from rivermeet.assets.cli.show.rows import table
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Pipeline, Table, count, expr

NODES, BRANCHES, DEEP = 10, 4, 10
ROOT = Path(__file__).parents[1]
_KEPT = {"amount": "left.amount", "name": "left.name", "city": "left.city"}


def chain() -> Pipeline:
    """Three sources and seven nodes of them: joins by foreign key and by key, an outer one, two filters, a count."""
    made = Pipeline("chain")
    people = made.table(
        "people",
        _files("people", {"person": "STRING", "name": "STRING", "city": "STRING"}),
        key=["person"],
        value=["name", "city"],
        timestamp="at",
    )
    orders = made.table(
        "orders",
        _files("orders", {"id": "STRING", "person": "STRING", "amount": "INT"}),
        key=["id"],
        value={"buyer": "person", "amount": "amount"},
        timestamp="at",
    )
    notes = made.table(
        "notes", _files("notes", {"id": "STRING", "text": "STRING"}), key=["id"], value=["text"], timestamp="at"
    )
    named = orders.join(
        people,
        "named",
        foreign_key="buyer",
        select={"amount": "left.amount", "name": "right.name", "city": "right.city"},
    )
    big = named.filter("amount > 50", "big")
    named.join(notes, "noted", select={"name": "left.name", "text": "right.text"})
    outer = big.outer_join(notes, "big_or_noted", select={"name": "left.name", "text": "right.text"})
    outer.filter("text IS NOT NULL", "with_text")
    named.group_by({"city": expr("city", "STRING")}).aggregate({"orders": count()}, "orders_of_city")
    people.one_to_many_join(
        orders, "owned", foreign_key="buyer", select={"city": "left.city", "amount": "right.amount"}
    )
    assert len(made.stored) == NODES, made.stored
    return made


def wide() -> Pipeline:
    """Fifty nodes: the ten of `chain`, and four times ten joins, each of the one before with the notes."""
    made = chain()
    named, notes = made.node("named"), made.node("notes")
    assert isinstance(named, Table) and isinstance(notes, Table)
    for branch in range(BRANCHES):
        last = named
        for step in range(DEEP):
            last = last.left_join(notes, f"deep_{branch}_{step}", select=_KEPT | {"text": "right.text"})
    assert len(made.stored) == NODES + BRANCHES * DEEP, made.stored
    return made


def _files(name: str, columns: Mapping[str, str]) -> Files:
    return Files(f"{name}/*.jsonl", "json", {**columns, "at": "BIGINT"})


@dataclass
class Records:
    """What is delivered, the same in each process that makes it of the same seed."""

    per_source: int
    random: random.Random = field(default_factory=lambda: random.Random(7))
    orders: dict[str, tuple[str, int]] = field(default_factory=dict)
    people: dict[str, tuple[str, str]] = field(default_factory=dict)

    def deliver(self, run: int, *folders: Path) -> None:
        """One file for each source, in each folder."""
        at, pick, many = 1_700_000_000_000 + run * 1000, self.random.randrange, self.per_source * 5
        lines: dict[str, list[dict[str, Any]]] = {"people": [], "orders": [], "notes": []}
        for n in range(self.per_source):
            person, order = f"p{pick(many // 2)}", f"o{pick(many)}"
            self.people[person] = f"name {run} {n}", f"city {pick(20)}"
            name, city = self.people[person]
            lines["people"].append({"person": person, "name": name, "city": city, "at": at + n})
            self.orders[order] = f"p{pick(many // 2)}", pick(100)
            of, amount = self.orders[order]
            lines["orders"].append({"id": order, "person": of, "amount": amount, "at": at + n})
            lines["notes"].append({"id": f"o{pick(many)}", "text": f"note {run} {n}", "at": at + n})
        for folder, (name, given) in product(folders, lines.items()):
            file = folder / name / f"{run:03d}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{json.dumps(line)}\n" for line in given))

    def join(self) -> set[tuple[str, int, str, str]]:
        """Rows of the foreign-key join, by plain Python."""
        found = ((id, amount, self.people.get(of)) for id, (of, amount) in self.orders.items())
        return {(id, amount, *person) for id, amount, person in found if person is not None}


def run_once(settings: Settings, pipeline: Pipeline) -> None:
    """One run in this process, as `rivermeet run` does it; prints what it took as a line of JSON."""
    asked = _count_requests()
    began = time.monotonic()
    from rivermeet.assets.cli.run import run_what_is_new
    from rivermeet.assets.project import Project
    from rivermeet.infra.engine.sessions import Sessions

    engine = replace(settings, home=Path(os.environ["RIVERMEET_BENCH_ENGINE"]))
    project = Project(settings, Sessions(engine), say=lambda line: print(line, file=sys.stderr))
    green = run_what_is_new(project, pipeline)
    print(json.dumps({"seconds": time.monotonic() - began, "green": green, "asked": asked}))


def _count_requests() -> Counter[str]:
    """Counts what this process asks of the engine, by the kind of request."""
    from pyspark.sql.connect.client.core import SparkConnectClient

    asked: Counter[str] = Counter()
    for name, kind in (("config", "config"), ("_analyze", "analyze"), ("_execute_and_fetch_as_iterator", "execute")):
        given = getattr(SparkConnectClient, name)

        def count(*args: Any, _given: Any = given, _kind: str = kind, **options: Any) -> Any:
            asked[_kind] += 1
            return _given(*args, **options)

        setattr(SparkConnectClient, name, count)
    return asked


def run_in_a_process(settings: Settings, engine: Settings, checkout: Path, *options: str) -> dict[str, Any]:
    """A run of the version in a checkout, with the seconds of the whole process as ``whole``."""
    # An environment that another checkout shares with this one imports this one's modules.
    ours = {"RIVERMEET_BENCH_ENGINE": str(engine.home), "PYTHONPATH": str(checkout)}
    env = os.environ | settings.environ() | ours
    python = checkout / ".venv/bin/python"
    began = time.monotonic()
    command = [str(python if python.exists() else sys.executable), "-m", "benchmarks.chain", "--once", *options]
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False)
    whole = time.monotonic() - began
    if done.returncode:
        raise click.ClickException(f"a run failed: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if not found["green"]:
        raise click.ClickException(f"a run was not green: {done.stderr[-2000:]}")
    return found | {"whole": whole}


def floor(settings: Settings, folder: str) -> Mapping[str, float]:
    """Seconds of an empty action, and of a commit of no rows, in the warm engine."""
    from rivermeet.infra.engine.session import session

    spark = session(settings)
    nothing = spark.createDataFrame([], "n INT")

    def seconds(action: Any) -> float:
        took: list[float] = []
        for _ in range(5):
            began = time.monotonic()
            action()
            took.append(time.monotonic() - began)
        return median(took)

    append = nothing.write.format("delta").mode("append")
    return {"an empty action": seconds(nothing.collect), "a commit": seconds(lambda: append.save(f"{folder}/nothing"))}


def measure(
    settings: Settings, runs: int, per_source: int, *options: str, before: Path | None = None
) -> Iterator[dict[str, Any]]:
    """The runs, one line each, in new engines unless in use; the joined tables are compared after the last.

    Each line has the seconds of the version ``before`` as well.
    """
    from rivermeet.infra.engine import warm as engine

    with TemporaryDirectory(prefix="rivermeet-chain-") as folder:
        records = Records(per_source)
        versions = [(ROOT, settings, _home(settings, Path(folder, "home")))]
        if before is not None:
            versions.append(
                (before, replace(settings, home=Path(folder, "engine")), _home(settings, Path(folder, "before")))
            )
        if not engine.status(settings).in_use:
            engine.stop(settings)
        try:
            for run in range(runs):
                records.deliver(run, *(Path(own.data) for _, _, own in versions))
                line, *others = [run_in_a_process(own, at, root, *options) for root, at, own in versions]
                yield line | ({"before": others[0]["whole"]} if others else {})
            for _, _, own in versions:
                _compare(settings, own, records, wide() if options else chain())
        finally:
            for _, at, _ in versions[1:]:
                engine.stop(at)
        yield {"floor": floor(settings, folder)}


def _home(settings: Settings, home: Path) -> Settings:
    return replace(settings, home=home, tables=str(home / "tables"), data=str(home / "data"))


def _compare(engine: Settings, own: Settings, records: Records, pipeline: Pipeline) -> None:
    from rivermeet.assets.project import Project
    from rivermeet.infra.engine.sessions import Sessions

    project = Project(own, Sessions(engine))
    ends = [node.name for node in pipeline.stored if node.name == "named" or node.name.endswith(f"_{DEEP - 1}")]
    for name in ends:
        paths = project.paths(pipeline.node(name))
        # The table itself may be behind: what other nodes read is folded when that is due.
        rows = project.sessions.open().read.format("delta").load(paths.changelog).orderBy("partition", "offset")
        last = {row["id"]: row for row in rows.select("key.id", "value").collect()}
        live = {(id, *row["value"][: len(_KEPT)]) for id, row in last.items() if row["value"] is not None}
        if live != records.join():
            raise click.ClickException(f"the joined table {name} is not that of plain Python: no time is printed")


@click.command()
@click.option("--runs", type=click.IntRange(2), default=5, show_default=True)
@click.option("--records", type=click.IntRange(1), default=100, show_default=True, help="New ones in each source.")
@click.option("--wide", "is_wide", is_flag=True, help="Fifty nodes, of them ten joins one below the other.")
@click.option(
    "--before",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Checkout of another version, whose runs take turns with these.",
)
@click.option("--once", is_flag=True, hidden=True)
def main(runs: int, records: int, is_wide: bool, before: Path | None, once: bool) -> None:
    """Run small nodes, one reading the other, several times."""
    settings = Settings.from_env()
    made = wide() if is_wide else chain()
    if once:
        run_once(settings, made)
        return
    *lines, last = measure(settings, runs, records, *(["--wide"] if is_wide else []), before=before)
    kinds, columns = ("config", "analyze", "execute"), ["run", "seconds"]
    shown = [[n, f"{line['whole']:.1f}"] for n, line in enumerate(lines, 1)]
    if before is not None:
        columns += ["before", "ratio"]
        for row, line in zip(shown, lines, strict=True):
            row += [f"{line['before']:.1f}", f"{line['whole'] / line['before']:.2f}"]
    shown = [[*row, *(line["asked"].get(kind, 0) for kind in kinds)] for row, line in zip(shown, lines, strict=True)]
    click.echo(f"{len(made.stored)} chained nodes, {records} new records in each of three sources, seconds of a run:")
    click.echo(table([*columns, *kinds], shown))
    warm = median(line["whole"] for line in lines[1:])
    beside = "" if before is None else f", {warm / median(line['before'] for line in lines[1:]):.2f} of {before.name}"
    floors = ", ".join(f"{what} {seconds:.3f} s" for what, seconds in last["floor"].items())
    click.echo(f"the middle one of the later runs: {warm:.1f} s{beside}; in the same engine {floors}")
    line = {"nodes": len(made.stored), "records": records, "runs": lines, **last}
    store(results_file(settings, "chain"), [line])


if __name__ == "__main__":
    main()
