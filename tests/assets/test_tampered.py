"""What becomes of the demo's tables when somebody changes a file of theirs: `rivermeet verify` finds it, by its key.

Each time the tables of one home are copied, one Parquet file of the copy gets other rows, and the log says of it what
is true of these: size and number of rows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyarrow.fs import copy_files

from rivermeet.assets.cli.main import main
from rivermeet.assets.demo import flights as flights_feed
from rivermeet.assets.demo.feeds import feed
from rivermeet.assets.project import EPOCHS, Project
from rivermeet.assets.quality.judge_committed import judge_everything
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.location import files_below
from rivermeet.infra.delta.scan import scan
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import limits
from rivermeet.pipelines.flights import PIPELINE
from tests.assets.home import homed
from tests.flights.slice import sliced
from tests.reliability import survived

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]

Row = dict[str, Any]
Rows = list[Row]


@pytest.fixture(scope="module")
def home(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The demo after three deliveries, of a slice of the flights; with the third come planes of earlier flights."""
    with (
        pytest.MonkeyPatch.context() as patched,
        homed(PIPELINE, tmp_path_factory.mktemp("flights"), settings) as made,
    ):
        patched.setattr(flights_feed, "read", lambda name, read=flights_feed.read: sliced(name, read(name)))
        # Tables of so few rows are otherwise written whole.
        patched.setattr(limits, "WHOLE_TABLE_ROWS", 0)
        patched.setattr(limits, "DRIVER_FOLD_BYTES", 0)
        for step in (1, 2, 3):
            feed("flights", made.data, step)
            assert made.run(), made.said
        yield made.project


@pytest.fixture
def copied(home: Project, tmp_path: Path) -> Project:
    """A copy of that home, on the same engine."""
    return copy_of(home, tmp_path / "copy")


def copy_of(home: Project, folder: Path) -> Project:
    for name in ("tables", "epochs", "quality"):
        shutil.copytree(home.settings.home / name, folder / name)
    (folder / "locks").mkdir()
    return replace(home, settings=replace(home.settings, home=folder, tables=str(folder / "tables")))


def rewrite(path: str, change: Callable[[Rows], Row | None]) -> Row:
    """Change the rows of the newest file that has what is to be changed, and what the log says of it; the row."""
    found = scan(path)
    assert found is not None
    for name in sorted(found.files, key=lambda file: -os.stat(f"{path}/{file}").st_mtime_ns):
        file = Path(path, name)
        table = pq.read_table(file)
        rows = table.to_pylist()
        row = change(rows)
        if row is not None:
            assert name not in found.deleted, "its rows lie elsewhere now"
            pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
            # Of another checksum Spark would read nothing.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            _say(Path(path, "_delta_log"), name, file.stat().st_size, len(rows))
            return row
    raise AssertionError("no file has such a row")


def _say(log: Path, name: str, size: int, rows: int) -> None:
    for commit in log.glob("*.json"):
        lines = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
        for added in (line["add"] for line in lines if line.get("add", {}).get("path") == name):
            stats = json.loads(added["stats"]) | {"numRecords": rows}
            added |= {"size": size, "stats": json.dumps(stats)}
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def is_pair(row: Row) -> bool:
    return row["right_offset"] is not None


def dropped(rows: Rows) -> Row | None:
    return rows.pop(len(rows) // 2)


def doubled(rows: Rows) -> Row | None:
    rows.append(rows[len(rows) // 3])
    return rows[-1]


def changed(rows: Rows) -> Row | None:
    row = rows[len(rows) // 2]
    row["value"]["destination_name"] = "Nowhere"
    return row


def stale(rows: Rows) -> Row | None:
    """A flight keeps the plane of another one, as if it had not been moved."""
    row = next((one for one in rows if one["manufacturer"] is not None), None)
    other = next((one for one in rows if row and one["model"] not in (None, row["model"])), None)
    if row is None or other is None:
        return None
    row |= {name: other[name] for name in ("manufacturer", "model", "seats", "built")}
    return row


def lost(rows: Rows) -> Row | None:
    """A pair is gone, and the offsets behind it are closed up: no hole shows it."""
    gone = next((one for one in rows if is_pair(one)), None)
    if gone is not None:
        rows.remove(gone)
        for row in rows:
            row["offset"] -= row["partition"] == gone["partition"] and row["offset"] > gone["offset"]
    return gone


def too_early(rows: Rows) -> Row | None:
    """A row without a partner takes the place of the first pair: its window was still open then."""
    alone = next((one for one in rows if not is_pair(one)), None)
    if alone is None:
        return None
    pairs = [one for one in rows if is_pair(one) and one["partition"] == alone["partition"]]
    first = min(pairs, key=lambda one: one["offset"])
    alone["offset"], first["offset"] = first["offset"], alone["offset"]
    return alone


@dataclass(frozen=True)
class Tampered:
    """A change of a file of a node's, and what is said of it beside the key."""

    what: Callable[[Rows], Row | None]
    node: str
    table: str
    says: str
    breaks: str = ""


TAMPERED = (
    Tampered(dropped, "trips", "changelog", "committed null, computed again ", "dense_changelog"),
    Tampered(doubled, "enriched_departures", "changelog", "computed again null", "dense_changelog"),
    Tampered(changed, "enriched_departures", "changelog", '"destination_name": "Nowhere"'),
    Tampered(stale, "fleet", "table", "problem differs", "fold_equals_table equals_batch_join"),
    Tampered(lost, "trips", "changelog", "computed again "),
    Tampered(too_early, "trips", "changelog", "computed again "),
    # A source is not computed again: its rules find it.
    Tampered(dropped, "departures", "changelog", "records ", "dense_changelog"),
    Tampered(doubled, "planes", "table", "copies 2", "unique_keys table_size"),
)


def verify(project: Project, *nodes: str) -> Result:
    selected = (part for node in nodes for part in ("--select", node))
    return CliRunner().invoke(main, ["verify", "flights", *selected], obj=project, catch_exceptions=False)


def key_of(one: Tampered, row: Row) -> Mapping[str, Any]:
    return row["key"] if one.table == "changelog" else {name: row[name] for name in PIPELINE.node(one.node).key}


def names(line: str, key: Mapping[str, Any]) -> bool:
    """Whether a line shows a key; of a time its date, as each engine writes the rest in its own way."""

    def text(part: Any) -> str:
        return json.dumps(part) if isinstance(part, str | int) else f'"{part:%Y-%m-%d}'

    return all(f'"{name}": {text(part)}' in line for name, part in key.items())


def broken(said: str) -> set[str]:
    lines = (line.strip() for line in said.splitlines())
    return {line.split(":")[0] for line in lines if re.search(r" violations?\. | not evaluated: ", line)}


def test_untouched_all_holds(copied: Project) -> None:
    table = scan(NodeTables(copied.settings.tables, "flights", "fleet").table)
    assert table is not None and table.deleted, "its fold took rows out of files"
    done = verify(copied)
    assert done.exit_code == 0, done.output
    assert broken(done.output) == set() and "not materialised" not in done.output
    assert len(done.output.splitlines()) == len(PIPELINE.stored)


def found(project: Project, one: Tampered) -> None:
    row = rewrite(getattr(NodeTables(project.settings.tables, "flights", one.node), one.table), one.what)
    done = verify(project, one.node)
    assert done.exit_code == 1, done.output
    assert broken(done.output) == set(one.breaks.split()), done.output
    lines = [line for line in done.output.splitlines() if one.says in line]
    assert lines, done.output
    if one.node != "departures":  # the rule names the partition, which has the hole
        assert any(names(line, key_of(one, row)) for line in lines), (key_of(one, row), done.output)


@pytest.mark.parametrize("one", TAMPERED, ids=lambda one: f"{one.what.__name__}-{one.node}-{one.table}")
def test_what_is_tampered_with_is_found(copied: Project, one: Tampered) -> None:
    found(copied, one)
    survived(
        f"a file of a {one.table} tampered with: a row {one.what.__name__.replace('_', ' ')}",
        "found by verify, with its key",
    )


def test_spark_finds_it_as_well(copied: Project) -> None:
    by_spark = replace(copied.settings, judge="spark")
    found(replace(copied, settings=by_spark), TAMPERED[0])


def test_in_a_bucket_all_is_judged_alike(home: Project, s3: str, tmp_path: Path) -> None:
    """The rules of all nodes, tables with deletion vectors among them, read through the store's client."""
    in_bucket(home, s3, tmp_path)


def in_bucket(home: Project, s3: str, folder: Path) -> None:
    for name, there in (("tables", s3), ("epochs", f"{s3}/{EPOCHS}")):
        copy_files(str(home.settings.home / name), "", destination_filesystem=files_below(there))
    # An engine that is asked for anything would have no client of this store.
    there = replace(home.settings, home=folder, tables=s3, judge="duckdb", engine="sc://localhost:1")
    behind = Project(there, Sessions(there))
    for node in PIPELINE.stored:
        there, here = (judge_everything(project.context(PIPELINE), node) for project in (behind, home))
        assert [_found(one) for one in there] == [_found(one) for one in here], node.name
        assert {one.state for one in there} == {"passed"}, node.name


def _found(one: InvariantResult) -> tuple[str, str, int | None, str]:
    return one.invariant.id, one.state, one.checked, one.judged_by
