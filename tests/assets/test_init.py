"""`rivermeet init`: what it writes runs as it is, in a folder that is no part of this repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from rivermeet.assets.cli.main import main
from rivermeet.assets.project import Project
from rivermeet.assets.scaffold.write import InitRefusedError, write_project
from rivermeet.infra import settings as infra_settings
from rivermeet.infra.project_file import KEYS, read_project
from rivermeet.infra.settings import Settings
from tests.packages import SEARCHED

COMMAND = "import sys; from rivermeet.assets.cli.main import main; sys.argv[0] = 'rivermeet'; main()"


def run(arguments: Sequence[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Python as a user starts it, in a folder, which is first on its path."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("RIVERMEET_")}
    given = own | {"PYTHONPATH": SEARCHED} | env
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=given, capture_output=True, text=True, check=False, timeout=500
    )


def test_the_files(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["init", str(tmp_path / "my-shop")])
    assert done.exit_code == 0, done.output
    written = {str(p.relative_to(tmp_path / "my-shop")) for p in tmp_path.rglob("*") if p.is_file()}
    assert written == {
        *("rivermeet.toml", "definitions.py", "pyproject.toml", ".gitignore", "README.md"),
        *("pipelines/my_shop.py", "tests/test_my_shop.py", "data/orders/monday.csv", "data/payments/monday.jsonl"),
    }
    assert f"wrote {tmp_path}/my-shop/pipelines/my_shop.py\n" in done.output
    assert "\nrivermeet run my_shop\n" in done.output


def test_each_setting_is_there_with_a_comment(tmp_path: Path) -> None:
    write_project(tmp_path / "shop")
    text = (tmp_path / "shop" / "rivermeet.toml").read_text()
    for key in KEYS:
        assert re.search(rf"^# .*\w.*\n(# )?{key} = ", text, re.MULTILINE), key
    # What is commented out can be meant, too.
    (tmp_path / "rivermeet.toml").write_text(re.sub(r"^# (\w+ = |\[|\")", r"\1", text, flags=re.MULTILINE))
    given = read_project(tmp_path).variables
    assert len(given) == len(KEYS) - 1 + 1, "all but an empty one, and one of librdkafka"


@pytest.mark.parametrize(
    ("name", "says"),
    [("full", "full is not empty; name a new folder"), ("1st", "no pipeline can be called '1st'; name a folder that")],
)
def test_what_cannot_be_written_is_refused_with_the_fix(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InitRefusedError, match=says):
        write_project(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "notes.txt"]
    assert CliRunner().invoke(main, ["init", str(tmp_path / name)]).exit_code == 1


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    write_project(tmp_path / "shop")
    project = Project.find(tmp_path / "shop" / "data" / "orders")
    assert (project.root, project.problems) == (tmp_path / "shop", ())
    assert project.settings.data == str(tmp_path / "shop" / "data")


def test_outside_of_a_project_both_ways_into_one_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIVERMEET_PROJECT", raising=False)
    # Installed, Rivermeet's own folder is no project.
    monkeypatch.setattr(infra_settings, "PROJECT", tmp_path / "site-packages" / "rivermeet")
    done = CliRunner().invoke(main, ["run", "shop"])
    assert (done.exit_code, done.output) == (
        1,
        f"Error: {tmp_path} is in no project, no folder above it has a rivermeet.toml: `rivermeet init NAME` writes "
        "one, --project names one\n",
    )
    write_project(tmp_path / "shop")
    named = CliRunner().invoke(main, ["--project", "shop", "run", "shp"])
    assert named.output == "Error: no pipeline 'shp'; there are shop\n"
    assert not os.environ.get("RIVERMEET_PROJECT"), "it is of that command alone"


def test_its_test_passes(tmp_path: Path) -> None:
    write_project(tmp_path / "shop")
    done = run(["-m", "pytest", "-q", "-p", "no:cacheprovider"], tmp_path / "shop")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.slow
def test_it_runs(tmp_path: Path, settings: Settings) -> None:
    root = tmp_path / "shop"
    write_project(root)
    # Folders and modules that data projects have, one of them broken.
    for clash in ("assets", "infra", "joins", "expectations", "pipelines", "tests"):
        (root / clash).mkdir(exist_ok=True)
        (root / clash / "__init__.py").write_text("HERE = True\n")
    (root / "records.py").write_text("raise RuntimeError('not yours')\n")
    (root / "pipelines" / "broken.py").write_text("PIPELINE = Pipeline()\n")
    # Tables and data of its own, on the engine of all tests.
    home = {"RIVERMEET_HOME": str(settings.home), "RIVERMEET_TABLES": str(root / ".rivermeet" / "tables")}
    assert (ran := run(["-c", COMMAND, "run", "shop"], root / "data", **home)).returncode == 0, ran.stdout + ran.stderr
    assert "settled                  epoch 1: 3 rows; " in ran.stdout
    asked = run(["-c", COMMAND, "sql", "select * from shop.settled", "--json"], root, **home)
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    assert [(row["order_id"], row["customer"], row["amount"], row["paid"]) for row in rows] == [
        ("o1", "ada", 20.0, 20.0),
        ("o2", "ben", 35.5, None),
        ("o3", "cleo", 12.0, 10.0),
    ]
    resource = f"Rivermeet(project=Project.find({str(root)!r}))"
    program = "from rivermeet import Project\nfrom rivermeet.dagster import Rivermeet\n"
    program += f"print(len({resource}.table('shop.settled')))"
    assert run(["-c", program], tmp_path, **home).stdout.split() == ["3"]
    status = run(["-c", COMMAND, "--project", str(root), "status"], tmp_path, **home)
    assert "settled" in status.stdout and status.returncode == 1
    assert f"not loaded: {root}/pipelines/broken.py, line 1: NameError: name 'Pipeline'" in status.stderr
