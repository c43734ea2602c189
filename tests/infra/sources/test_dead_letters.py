"""Dead letters are retried once, by the declaration of today; what is dead still counts once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from rivermeet.assets.cli.main import main
from rivermeet.assets.cli.sources import retry_letters
from rivermeet.infra import crash
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.pipelines import expr, limits
from tests.assets.home import project_in
from tests.crashes import crashing_at
from tests.infra.sources.feeding import Fed, fed
from tests.reliability import survived

pytestmark = pytest.mark.slow

BAD = "id,n,at\na,1,10\nb,x,20\nc,y,30\n"


def values(source: Fed) -> list[tuple[Any, ...]]:
    """Epoch, key and value of every record, in order of arrival."""
    return [(row["epoch"], row["key"]["id"], *row["value"].values()) for row in source.records()]


def opened(source: Fed) -> list[tuple[int, str, str | None, str]]:
    """Epoch, file, text and reason of the letters that are open."""
    letters = source.step.open_letters()
    found = [
        (row["epoch"], Path(row["file"]).name, row["text"], row["reason"])
        for row in source.letters()
        if row["epoch"] in letters.epochs and (row["position"] > 0 or row["file"] in letters.files)
    ]
    assert len(found) == letters.count
    return found


def test_letters_of_an_attempt_by_another_home(spark: SparkSession, tmp_path: Path) -> None:
    """Two homes share tables. One dies before its commit; the epoch of the other reads other files, all sound."""
    source = fed(spark, tmp_path, max_bad_share=1)
    source.deliver(a=BAD)
    with crashing_at("sides-written"):
        source.run()
    assert len(source.letters()) == 2
    shutil.rmtree(source.runner.log.path)
    (source.folder / "a.csv").unlink()
    source.deliver(b="id,n,at\nd,4,40\n")
    result = source.run()
    assert (result.plan.epoch, result.sides) == (1, {"dead_letter": 0})
    assert (source.letters(), values(source)) == ([], [(1, "d", 4)])


def test_letters_of_a_home_whose_attempt_another_one_has_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """Both die before they commit; the first, which goes on then, must not take its letters for written."""
    source = fed(spark, tmp_path, max_bad_share=1)
    log, aside, bad = Path(source.runner.log.path), tmp_path / "log of the first", source.folder / "a.csv"
    source.deliver(a=BAD)
    with crashing_at("sides-written"):
        source.run()
    log.rename(aside)
    bad.rename(tmp_path / bad.name)
    source.deliver(b="id,n,at\nd,4,40\n")
    with crashing_at("sides-written"):
        source.run()
    assert source.letters() == []
    shutil.rmtree(log)
    aside.rename(log)
    (tmp_path / bad.name).rename(bad)
    result = source.run()
    assert (result.plan.epoch, result.sides) == (1, {"dead_letter": 2})
    assert len(source.letters()) == 2


def test_a_mended_schema_makes_records_of_letters(spark: SparkSession, tmp_path: Path) -> None:
    source = fed(spark, tmp_path, max_bad_share=1)
    source.deliver(a=BAD, b="at,id,n\n40,d,z\n50,,5\n")
    source.run()
    source.deliver(c="id,n,at\ne,6,60\nf,w,70\n")
    source.run()
    assert source.step.open_letters().count == 5
    corrected = source.declared(schema={"id": "STRING", "n": "STRING", "at": "BIGINT"})
    corrected = corrected.declared(value={"n": expr("int(conv(n, 36, 10))", "INT")})
    result = corrected.retry()
    assert result is not None
    assert (result.plan.epoch, result.plan.retries, result.rows, result.sides) == (3, (1, 2), 4, {"dead_letter": 1})
    assert values(source)[2:] == [(3, "b", 33), (3, "c", 34), (3, "d", 35), (3, "f", 32)], "in order of their arrival"
    assert [row["offset"] for row in source.records()] == list(range(6))
    assert opened(source) == [(3, "b.csv", "50,,5", "key column 'id' is null")]
    again = corrected.retry()
    assert again is not None
    assert (again.rows, again.sides, len(opened(source))) == (0, {"dead_letter": 1}, 1), "dead still, and counted once"
    without = corrected.declared(where="id IS NOT NULL")
    assert [r and r.rows for r in (without.retry(), without.retry())] == [0, None]
    assert opened(source) == [], "what is no record of the source is not dead either"
    assert source.run_or_none() is None, "a retry consumes no files"


def test_lifted_bounds_and_where(spark: SparkSession, tmp_path: Path) -> None:
    source = fed(spark, tmp_path, format="json", not_after="2000-01-01", max_ahead="1d", max_bad_share=1)
    source.deliver(a__json='{"id":"a","n":1,"at":1.5e0}\n{"id":"b","n":-1,"at":1600000000000}\n{"id":"c"\n')
    source.deliver(b__json='{"id":"d","n":2,"at":4102444800000}\n')
    source.run()
    result = source.declared(not_after=None, where="n > 0").retry()
    assert result is not None
    assert result.rows == 0
    assert [(text, reason.split(" after its")[0]) for *_, text, reason in opened(source)] == [
        ('{"id":"a","n":1,"at":1.5e0}', "column 'at': '1.5e0' is not BIGINT"),
        ('{"id":"c"', "the line is not one JSON object with fields of the declared types"),
        ('{"id":"d","n":2,"at":4102444800000}', "event time 2100-01-01 00:00:00 UTC is more than max_ahead=1d"),
    ]


def test_a_parquet_row_comes_again_with_its_types(spark: SparkSession, tmp_path: Path) -> None:
    moment = pa.array([1_600_000_000_123_456] * 2, pa.timestamp("us", tz="UTC"))
    columns = {
        "id": pa.array(["a", "b"]), "n": pa.array([2.0, 3.0]), "bytes": pa.array([b"\xff\x00"] * 2),
        "exact": pa.array([Decimal("123456789.123456789123")] * 2), "list": pa.array([[1, None]] * 2),
        "odd, `name`": pa.array([float("nan")] * 2), "moment": moment, "at": pa.array([None, None], pa.int64()),
    }  # fmt: skip
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "data" / "a.parquet")
    schema = {
        "id": "STRING", "n": "INT", "bytes": "BINARY", "exact": "DECIMAL(30,12)", "list": "ARRAY<INT>",
        "odd, `name`": "DOUBLE", "moment": "TIMESTAMP", "at": "BIGINT",
    }  # fmt: skip
    value = {"odd" if "odd" in name else name: name for name in schema if name not in ("id", "at")}
    source = fed(spark, tmp_path, schema, format="parquet", value=value, max_bad_share=1)
    source.run()
    assert source.records() == []
    assert source.declared(timestamp="coalesce(at, 5)").retry() is not None
    direct = fed(spark, tmp_path, schema, "direct", format="parquet", value=value, timestamp="coalesce(at, 5)")
    direct.run()
    assert len(source.records()) == 2
    assert repr(source.records()) == repr(direct.records()).replace("'epoch': 1", "'epoch': 2")


@pytest.mark.prove
def test_files_are_read_again_where_they_lie(spark: SparkSession, tmp_path: Path) -> None:
    source = fed(spark, tmp_path, max_bad_share=1)
    renamed = "id,amount,at\nr,1,10\ns,x,20\n"
    source.deliver(a="id,n,at\na,1,10\n", b=renamed, c="nothing", d="id\nd\n", e=renamed)
    assert source.run().rows == 1
    (tmp_path / "data" / "d.csv").unlink()
    source.deliver(c="id,n,at\nc,3,30\n")
    result = source.run()
    assert result.plan.reads is not None
    assert (result.rows, [Path(path).name for path in result.plan.reads.paths]) == (1, ["c.csv"]), "replaced, so new"
    assert [name for _, name, *_ in opened(source) if name != "c.csv"] == ["b.csv", "d.csv", "e.csv"]
    corrected = source.declared(
        schema={"id": "STRING", "amount": "INT", "at": "BIGINT"}, value={"n": expr("amount", "INT")}
    )
    assert corrected.retry() is not None
    assert values(source) == [(1, "a", 1), (2, "c", 3), (3, "r", 1)]
    gone = "the file cannot be read again, because it is no longer among the files of the source; deliver it again"
    copy = f'the file has the same bytes as {tmp_path}/data/b.csv; declare duplicate_files="read" if it is meant twice'
    assert [letter[1:] for letter in opened(source)] == [
        ("b.csv", "s,x,20", "column 'amount': 'x' is not INT"),
        ("d.csv", None, gone),
        ("e.csv", None, copy),
    ]
    assert corrected.declared(duplicate_files="read", null="x").retry() is not None
    assert values(source)[3:] == [(4, "s", None), (4, "r", 1), (4, "s", None)]
    assert [(name, reason) for _, name, _, reason in opened(source)] == [("d.csv", gone)]
    source.deliver(d="id,n,at\nd,4,40\n")
    assert (source.run().rows, opened(source)) == (1, []), "it is back, and its letter is closed"


def test_a_row_that_is_not_kept_whole_stays_dead(spark: SparkSession, tmp_path: Path) -> None:
    source = fed(spark, tmp_path, max_bad_share=1)
    source.deliver(a=f"id,n,at\n{'l' * limits.LETTER_WIDTH},x,1\nb,x,2\n")
    source.run()
    corrected = source.declared(schema={"id": "STRING", "n": "STRING", "at": "BIGINT"})
    for rows in (1, 0):
        result = corrected.declared(value={"n": expr("1", "INT")}).retry()
        assert result is not None
        assert (result.rows, result.sides) == (rows, {"dead_letter": 1})
        reason = "the row is not kept whole and cannot be read again; deliver it in a new file"
        assert opened(source)[0][2:] == ("l" * limits.LETTER_WIDTH, f"{reason} (its text is cut to 10,000 characters)")


@pytest.mark.prove
def test_killed_anywhere_a_retry_takes_effect_once(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """The process that is killed has the corrected declaration of ``feeding.py``: another ``not_after``."""
    expected = None
    for point in (None, "planned", "sides-written", "committed"):
        root = tmp_path / str(point)
        source = fed(spark, root, max_bad_share=1, not_after="2000-01-01")
        source.deliver(a="id,n,at\na,1,10\nb,1,1600000000000\nc,x,5\n", b="id\n")
        source.run()
        corrected = fed(spark, root, max_bad_share=1, not_after="2100-01-01")
        if point is None:
            assert corrected.retry() is not None
        else:
            env = os.environ | settings.environ() | {crash.SETTING: point}
            command = [sys.executable, "-m", "tests.infra.sources.feeding", str(root)]
            done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300)
            assert done.returncode == -signal.SIGKILL, done.stderr
            # Whatever runs the source next finishes the retry, or finds it done.
            assert (corrected.run_or_none() is None) == (point == "committed")
        found = values(corrected), opened(corrected)
        expected = expected or found
        assert found == expected, point
        assert len(corrected.letters()) == 3 + 2, point
        if point is not None:
            survived(f"kill -9 of a retry of dead letters, {point}", "taken up again, once")
    assert expected is not None
    assert expected[0] == [(1, "a", 1), (2, "b", 1)]


@pytest.mark.prove
def test_the_command_says_what_became_of_them(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    project = project_in(tmp_path, settings, data=str(tmp_path))
    source = fed(spark, tmp_path, max_bad_share=1)
    source.deliver(a=f"{BAD},x,40\n")
    first = source.run()
    source.deliver(b="id,n,at\nd,4,40\n")
    planned = source.step.plan(first.note, first.version, 2)
    assert planned is not None
    source.runner.log.write("s", 1, 2, "plan", planned.model_dump_json())
    corrected = source.declared(null="x")
    # The plan of new files that a killed run has left is run first, as it stands.
    assert retry_letters(project, corrected.node) == "s: 3 dead letters retried, 1 record, 2 still dead"
    assert values(source) == [(1, "a", 1), (2, "d", 4), (3, "b", None)]
    text = {"id": "STRING", "n": "STRING", "at": "BIGINT"}
    source.declared(schema=text, value={"n": expr("try_cast(n AS INT)", "INT")}, where="at < 30").retry()
    assert retry_letters(project, corrected.node) == "s: no dead letters to retry"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["invoice", "--select", "invoices"], "has no dead letters; select one of purchases, products, customers"),
        (["invoice", "--select", "sales"], "pipeline 'invoice' has no 'sales'"),
    ],
)
def test_the_command_names_what_it_cannot_retry(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(main, ["retry-dead-letters", *arguments])
    assert done.exit_code == 1
    assert says in done.output
