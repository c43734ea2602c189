"""What the command line says where nothing can be run."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from sqlite3 import OperationalError

import click
import pytest
from click.testing import CliRunner

from rivermeet.assets.cli.main import main
from rivermeet.assets.cli.terminal import one_line_errors
from rivermeet.infra.settings import PROJECT
from tests.reliability import handled


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RIVERMEET_TABLES", "RIVERMEET_DATA", "RIVERMEET_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RIVERMEET_HOME", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "flihgts"], "no pipeline 'flihgts'; there are flights, invoice"),
        (["status", "flihgts"], "no pipeline 'flihgts'; there are flights, invoice"),
        (["demo", "flihgts"], "no pipeline 'flihgts'; there are flights, invoice"),
        (["feed", "flihgts"], "no feed for pipeline 'flihgts'; there are flights, invoice"),
        (["feed", "invoice", "--step", "9"], "the feed of 'invoice' has steps 1 to 3, not 9"),
    ],
)
def test_a_wrong_name_is_one_line_with_the_choices(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.output) == (1, f"Error: {says}\n")


def test_a_wrong_node_is_one_line_with_the_choices() -> None:
    result = CliRunner().invoke(main, ["run", "invoice", "--select", "invoice"])
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert "'invoice'" in line
    for node in ("purchases", "products", "customers", "invoices", "checked_purchases"):
        assert node in line


def test_a_grace_that_is_no_duration_is_one_line_with_the_units() -> None:
    result = CliRunner().invoke(main, ["rebuild", "invoice", "--grace", "3w"])
    assert result.exit_code == 2
    assert "'--grace': '3w' is not a duration; write a number and one of ms, s, m, h, d" in result.output


def test_a_home_that_is_a_file_is_one_line(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = empty_home / "file"
    taken.touch()
    monkeypatch.setenv("RIVERMEET_HOME", str(taken))
    result = CliRunner().invoke(main, ["feed", "invoice"])
    assert (result.exit_code, result.output) == (1, f"Error: RIVERMEET_HOME={taken} is a file; name a folder\n")


FULL = OperationalError("database or disk is full")
AGAIN = "or name another folder with RIVERMEET_HOME, and run again. What was not committed is done again"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/home/x"), "/home/x cannot be written, the disk is full ("),
        (OSError(errno.EROFS, "Read-only file system", "/x"), "/x cannot be written, the disk is read-only ("),
        (OSError(errno.EACCES, "Permission denied", "/x"), "/x cannot be written, the disk is not ours to write ("),
        (FULL, "{home} cannot be written, the disk is full (database or disk is full)"),
        (RuntimeError("in a step"), None),
    ],
)
def test_a_disk_that_takes_nothing_more_is_one_line(error: Exception, says: str | None, empty_home: Path) -> None:
    @click.command()
    @one_line_errors()
    def write() -> None:
        try:
            raise error
        except Exception as first:
            raise RuntimeError("what a library makes of it") from first

    result = CliRunner().invoke(write)
    if says is None:
        assert isinstance(result.exception, RuntimeError)
        return
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)
    assert result.output.startswith("Error: " + says.format(home=empty_home)) and result.output.endswith(f"{AGAIN}\n")


def test_a_feed_that_meets_the_limit_of_a_disk_is_one_line(empty_home: Path) -> None:
    command = [sys.executable, "-c", "from rivermeet.assets.cli.main import main; main()", "feed", "invoice"]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (20, 20))
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert done.returncode == 1 and done.stderr.startswith("Error: ") and done.stderr.endswith(f"{AGAIN}\n")
    assert "the disk is full (File too large)" in done.stderr and len(done.stderr.splitlines()) == 1
    handled(
        "runs", "a full disk, a read-only home, one without the right to write", "one line with the folder and the cure"
    )


def test_a_feed_needs_a_local_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIVERMEET_DATA", "s3://bucket/data")
    result = CliRunner().invoke(main, ["feed", "invoice"])
    says = "Error: RIVERMEET_DATA=s3://bucket/data is no local folder; feeds write to one\n"
    assert (result.exit_code, result.output) == (1, says)


def test_status_of_an_empty_home(empty_home: Path) -> None:
    result = CliRunner().invoke(main, ["status", "invoice"])
    assert result.exit_code == 0
    title, header, _, *lines = result.output.splitlines()
    assert title == "invoice"
    assert header.split() == ["node", "kind", "epoch", "rows", "lag", "late", "dead", "checks"]
    assert [line.split()[0] for line in lines] == [
        *("purchases", "products", "customers"),
        *("priced_purchases", "invoices", "known_products", "checked_purchases"),
    ]
    assert all(line.endswith("not materialised yet") for line in lines)
    assert not (empty_home / "engine").exists(), "looking starts no engine"


def test_feed_says_what_it_wrote_and_writes_it_once(empty_home: Path) -> None:
    first = CliRunner().invoke(main, ["feed", "invoice", "--step", "1"])
    paths = [f"invoice/{source}/2024-05-01.jsonl" for source in ("products", "customers", "purchases")]
    assert (first.exit_code, first.output) == (0, "".join(f"wrote {path}\n" for path in paths))
    assert all((empty_home / "data" / path).is_file() for path in paths)
    again = CliRunner().invoke(main, ["feed", "invoice", "--step", "1"])
    assert (again.exit_code, again.output) == (0, "all delivered already\n")


def test_a_taken_port_is_one_line_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["ui", "--port", str(port)])
    says = f"Error: port {port} is taken; stop what uses it, or choose another with --port\n"
    assert (result.exit_code, result.output) == (1, says)


PLANNED = """\
purchases
  plan     epoch 1
           {home}/data/invoice/purchases/2024-05-01.jsonl
  write    1 file
  judge    2 invariants, 2 of them blocking
  commit   {home}/tables/invoice/purchases/changelog, version 0
  record   {home}/epochs/invoice
  fold     nothing: a stream has no table
customers
  plan     epoch 1
           {home}/data/invoice/customers/2024-05-01.jsonl
  write    1 file
  judge    2 invariants, 2 of them blocking
  commit   {home}/tables/invoice/customers/changelog, version 0
  record   {home}/epochs/invoice
  fold     {home}/tables/invoice/customers/table, not yet made; when due
known_products
  plan     after purchases, whose new records come on top
"""


def test_a_run_is_explained_stage_by_stage_and_nothing_is_done(empty_home: Path) -> None:
    CliRunner().invoke(main, ["feed", "invoice", "--step", "1"])
    selected = ("--select", "purchases", "--select", "customers", "--select", "known_products")
    for _ in range(2):
        result = CliRunner().invoke(main, ["run", "invoice", "--plan", *selected])
        assert (result.exit_code, result.output) == (0, PLANNED.format(home=empty_home))
        written = {path.relative_to(empty_home).parts[0] for path in empty_home.rglob("*") if path.is_file()}
        assert written == {"data"}
