"""A file that cannot be loaded is named with its line and its error, and stops no other pipeline."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from rivermeet import pipelines
from rivermeet.pipelines import PipelineFileError, load, load_all, loaded
from tests.reliability import handled

SOUND = 'from rivermeet.pipelines import Files, Pipeline\nPIPELINE = Pipeline("NAME")\n'
FILES = {
    "zz_sound": SOUND.replace("NAME", "zz_sound"),
    "zz_syntax": 'PIPELINE = Pipeline("zz_syntax"\n',
    "zz_import": "import os\nimport nothing_of_that_name\n",
    "zz_declared": SOUND.replace("NAME", "zz_declared") + 'PIPELINE.stream("s", Files("*", "json", {"id": "TXT"}))\n',
    "zz_ends": "import sys\n\nsys.exit(3)\n",
    "zz_one": SOUND.replace("NAME", "zz_both"),
    "zz_two": SOUND.replace("NAME", "zz_both"),
    "zz_shares": "from rivermeet.pipelines.zz_sound import PIPELINE\n",
}
SAYS = {
    "zz_syntax": ", line 1: SyntaxError: '(' was never closed",
    "zz_import": ", line 2: ModuleNotFoundError: No module named 'nothing_of_that_name'",
    "zz_declared": ", line 3: DeclarationError: pipeline 'zz_declared', node 's': column 'id': 'TXT' is no ",
    "zz_ends": ", line 3: SystemExit: 3",
    "zz_both": "zz_two.py: pipeline 'zz_both' is declared by ",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(pipelines, "__path__", [*pipelines.__path__, str(tmp_path)])
    yield tmp_path
    for name in FILES:
        sys.modules.pop(f"pipelines.{name}", None)
        pipelines.__dict__.pop(name, None)


def test_the_others_are_loaded(folder: Path) -> None:
    names = [pipeline.name for pipeline in load_all()]
    assert "flights" in names and "zz_sound" in names and not {*SAYS} & {*names}
    assert load("zz_sound").name == "zz_sound"
    assert {file.pipeline for file in loaded()[1]} == {*SAYS}


@pytest.mark.parametrize("name", SAYS)
def test_the_broken_one_gives_its_error(folder: Path, name: str) -> None:
    with pytest.raises(PipelineFileError) as refused:
        load(name)
    assert SAYS[name] in str(refused.value)
    assert str(refused.value).startswith(str(folder))
    with pytest.raises(KeyError, match=r"no pipeline 'nobody'.*; not loaded: .*zz_import\.py, line 2"):
        load("nobody")
    handled(
        "runs",
        "a file in `pipelines/` that raises, is no Python, or declares the name of another one",
        "every other pipeline goes on; the file is named with its line and error, in Dagster by an asset that fails",
    )


def test_running_it_is_one_line_and_a_status(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rivermeet.assets.cli.main import main

    monkeypatch.setenv("RIVERMEET_HOME", str(folder / "home"))
    done = CliRunner().invoke(main, ["run", "zz_import"])
    assert done.exit_code == 1
    assert done.output == f"Error: {folder}/zz_import.py{SAYS['zz_import']}\n"


def test_dagster_shows_it_and_loads_the_rest(folder: Path) -> None:
    from rivermeet.assets.definitions import defs

    found = dg.Definitions.merge(defs())
    keys = {key.to_user_string() for key in found.resolve_asset_graph().get_all_asset_keys()}
    assert {"not_loaded/zz_syntax", "not_loaded/zz_two"} <= keys
    assert any(key.startswith("flights/") for key in keys)
    broken = found.get_assets_def(dg.AssetKey(["not_loaded", "zz_import"]))
    assert SAYS["zz_import"] in str(broken.descriptions_by_key)
    assert not dg.materialize([broken], raise_on_error=False).success
