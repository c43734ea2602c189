"""A run that finds nothing new needs neither Dagster nor an engine; whatever has something to do is run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from rivermeet.assets.definitions import schedule_of
from rivermeet.assets.epoch.idle import idle_run, is_idle
from rivermeet.assets.epoch.materialise import materialise
from rivermeet.assets.epoch.operator_step import step_of
from rivermeet.assets.epoch.run import run_epoch
from rivermeet.expectations import invariants
from rivermeet.infra.engine import session as engine_session
from rivermeet.infra.settings import PROJECT, Settings
from rivermeet.pipelines import Files, Node, Pipeline
from tests.assets.home import Home, homed
from tests.assets.quality.held import rule
from tests.builders import csv_file

pytestmark = pytest.mark.slow

SHOP = Pipeline("idle")
_FILES = Files("orders/*.csv", "csv", {"id": "STRING", "n": "INT", "at": "BIGINT"})
orders = SHOP.table("orders", _FILES, key=["id"], value=["n"], timestamp="at", partitions=1)
dear = orders.filter("value.n > 1", "dear")
NOT_TWO = replace(rule("not_two", "= 2"), blocking=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    with homed(SHOP, tmp_path_factory.mktemp("idle"), settings) as found, pytest.MonkeyPatch.context() as patched:
        patched.setattr(invariants, "ALL", (*invariants.ALL, NOT_TWO))
        yield found


def deliver(home: Home, n: int) -> None:
    csv_file(home.data / "orders" / f"{n}.csv", "id,n,at", f"k{n},{n},{n}")


def run_all(home: Home, but: Node | None = None) -> None:
    for node in SHOP.stored:
        if node is not but:
            materialise(home.project, node, "run")
    home.said.clear()


def idle(home: Home) -> bool | None:
    """What an idle run says, with no engine and no Dagster to be had."""

    def none(*_: object, **__: object) -> None:
        raise AssertionError("an idle run needs none")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine_session, "session", none)
        patched.setattr(dg, "materialize", none)
        home.said.clear()
        return idle_run(home.project, SHOP)


@pytest.mark.prove
def test_a_home_is_idle_once_everything_was_run_and_judged(home: Home) -> None:
    deliver(home, 1)
    assert idle(home) is None, "nothing was run"
    run_all(home, but=dear)
    assert idle(home) is None, "'dear' was not run"
    run_all(home)
    assert idle(home) is True
    assert home.said == ["  orders                   nothing new", "  dear                     nothing new"]

    deliver(home, 2)
    assert idle(home) is None, "a file is new"
    context = home.project.context(SHOP)
    run_epoch(replace(context, quality=None), step_of(home.project, orders))
    assert idle(home) is None, "'dear' has something to read, and 'orders' was not judged"
    run_epoch(replace(context, quality=None), step_of(home.project, dear))
    assert idle(home) is None, "nothing was judged"
    run_all(home)
    assert idle(home) is False, "2 violates a critical rule, as before"
    violated = [line for line in home.said if "VIOLATED" in line]
    assert [line.split(",")[0] for line in violated] == [
        "  VIOLATED idle/orders_changelog: not_two",
        "  VIOLATED idle/dear_changelog: not_two",
    ]
    assert idle_run(home.project, SHOP, ["orders"]) is False


def test_a_tick_of_the_schedule_is_skipped_and_says_why(home: Home) -> None:
    run_all(home)
    schedule = schedule_of(SHOP, dg.define_asset_job("idle"), home.project)
    tick = schedule.evaluate_tick(dg.build_schedule_context())
    assert tick.skip_message and not tick.run_requests
    deliver(home, 3)
    tick = schedule.evaluate_tick(dg.build_schedule_context())
    assert tick.run_requests and not tick.skip_message


def test_what_others_did_to_a_table_is_no_rest(home: Home) -> None:
    run_all(home)
    assert is_idle(home.project, SHOP.stored)
    spark, path = home.project.sessions.open(), home.project.context(SHOP).paths(dear).changelog
    spark.read.format("delta").load(path).write.format("delta").mode("append").save(path)
    assert idle(home) is None


@pytest.mark.prove
def test_it_ends_well_each_time_and_loads_no_dagster(tmp_path: Path, settings: Settings) -> None:
    """Threads of Arrow that still called Python aborted a third of these processes on their way out."""
    # In the home of all tests, and so on its engine, with tables of its own.
    own = replace(settings, tables=str(tmp_path / "tables"), data=str(tmp_path / "data"))
    env = os.environ | own.environ()

    def rivermeet(*words: str) -> subprocess.CompletedProcess[str]:
        program = "import sys, rivermeet.assets.cli.main as m; sys.argv[0] = 'rivermeet'; import atexit; "
        program += "atexit.register(lambda: print('dagster' in sys.modules)); m.main()"
        command = [sys.executable, "-c", program, *words]
        return subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300, check=False)

    assert rivermeet("feed", "invoice", "--step", "1").returncode == 0
    done = rivermeet("run", "invoice", "--select", "purchases")
    assert done.returncode == 0, done.stderr
    for _ in range(8):
        done = rivermeet("run", "invoice", "--select", "purchases")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "False"), done.stderr
        assert "nothing new" in done.stdout
