"""One name in site-packages: a wheel installs `rivermeet`, and a project's own folders may have any other name."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import rivermeet
from rivermeet.infra.settings import PROJECT

FOLDERS = ("assets", "expectations", "infra", "joins", "pipelines", "records")
GENERIC = re.compile(rf"^\s*(?:from|import) ({'|'.join(FOLDERS)})\b", re.MULTILINE)


def test_no_module_is_imported_by_a_generic_name() -> None:
    files = [file for folder in (*FOLDERS, "benchmarks", "tests") for file in (PROJECT / folder).rglob("*.py")]
    assert [str(file.relative_to(PROJECT)) for file in files if GENERIC.search(file.read_text())] == []


def test_a_generic_import_is_found() -> None:
    assert GENERIC.search("if TYPE_CHECKING:\n    from infra.settings import Settings\n")


def test_each_folder_is_a_link() -> None:
    assert {path.name: os.readlink(path) for path in (PROJECT / "rivermeet").iterdir() if path.is_symlink()} == {
        folder: f"../{folder}" for folder in FOLDERS
    }


def test_what_is_public_is_there() -> None:
    assert [name for name in rivermeet.__all__ if getattr(rivermeet, name, None) is None] == []


def test_a_wheel_holds_one_package(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith("METADATA"))
        assert Parser().parsestr(archive.read(metadata).decode())["Name"] == "rivermeet"
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"rivermeet"}
    tracked = subprocess.run(["git", "ls-files", *FOLDERS], cwd=PROJECT, capture_output=True, text=True, check=True)
    ours = {f"rivermeet/{file}" for file in tracked.stdout.splitlines() if not file.startswith("infra/deploy/")}
    assert ours - {*names} == set()
    assert "rivermeet/py.typed" in names


def test_a_wheel_works_beside_a_project_that_uses_every_name(wheel: Path, tmp_path: Path) -> None:
    installed, project = tmp_path / "site", tmp_path / "project"
    with ZipFile(wheel) as archive:
        archive.extractall(installed)
    for folder in ("assets", "expectations", "infra", "joins", "pipelines", "tests"):
        (project / folder).mkdir(parents=True)
        (project / folder / "__init__.py").write_text("OURS = True\n")
    (project / "records.py").write_text("OURS = True\n")
    program = (
        "import assets, expectations, infra, joins, pipelines, records, sys\n"
        "assert all(module.OURS for module in (assets, expectations, infra, joins, pipelines, records))\n"
        "from rivermeet import Files, Pipeline\n"
        "import rivermeet.assets.cli.main, rivermeet.assets.definitions, rivermeet.infra.settings\n"
        "print(rivermeet.__file__, Pipeline('shop').name)\n"
    )
    env = os.environ | {"PYTHONPATH": f"{project}:{installed}"}
    done = subprocess.run([sys.executable, "-c", program], cwd=project, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(installed / "rivermeet" / "__init__.py"), "shop"]


def test_the_reports_are_served_from_a_wheel(wheel: Path, tmp_path: Path) -> None:
    # `python -m` looks in the current folder first, and rivermeet/ holds a dagster.py.
    installed = tmp_path / "site"
    with ZipFile(wheel) as archive:
        archive.extractall(installed)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = (
        "import os, time, urllib.request\n"
        "from rivermeet.assets.cli.web import _reports\n"
        "from rivermeet.infra.settings import Settings\n"
        "settings = Settings.from_env()\n"
        "server = _reports(settings, os.environ)\n"
        "(settings.reports / 'quality.html').write_text('of today')\n"
        "while server.poll() is None:\n"
        "    try:\n"
        "        print(urllib.request.urlopen(f'http://127.0.0.1:{settings.reports_port}/').read().decode())\n"
        "        break\n"
        "    except OSError:\n"
        "        time.sleep(0.2)\n"
        "server.kill()\n"
    )
    env = os.environ | {"PYTHONPATH": str(installed), "RIVERMEET_HOME": str(tmp_path / "home")}
    env |= {"RIVERMEET_REPORTS_PORT": str(port)}
    # In the package's own folder, which is the worst place.
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=installed / "rivermeet", env=env, capture_output=True, text=True, timeout=100)
    assert done.stdout == "of today\n", done.stdout + done.stderr
