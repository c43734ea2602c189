"""A file that cannot be loaded is named with its line and its error, and stops no other pipeline."""

from __future__ import annotations

import sys
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from rivermeet.assets.project import Project
from rivermeet.pipelines.files import PipelineFileError, load_files, package_of
from tests.reliability import handled

SOUND = 'from rivermeet.pipelines import Files, Pipeline\nPIPELINE = Pipeline("NAME")\n'
STREAM = """\
PIPELINE.stream("s", Files("*", "json", {"id": "STRING", "at": "BIGINT"}), key=["id"], timestamp="at")
"""
FILES = {
    "sound": SOUND.replace("NAME", "sound") + STREAM,
    "syntax": 'PIPELINE = Pipeline("syntax"\n',
    "import": "import os\nimport nothing_of_that_name\n",
    "declared": SOUND.replace("NAME", "declared") + 'PIPELINE.stream("s", Files("*", "json", {"id": "TXT"}))\n',
    "ends": "import sys\n\nsys.exit(3)\n",
    "one": SOUND.replace("NAME", "both"),
    "two": SOUND.replace("NAME", "both"),
    "shares": "from .sound import PIPELINE\n",
    "absolute": "import sound\n",
    "json": "VAT = 0.19\n",
    "deep/er/below": "from ...json import VAT\n" + SOUND.replace("NAME", "below"),
    "deep/dotted.name": SOUND.replace("NAME", "dotted"),
    ".hidden/copy": SOUND.replace("NAME", "sound"),
}
SAYS = {
    "syntax": ", line 1: SyntaxError: '(' was never closed",
    "import": ", line 2: ModuleNotFoundError: No module named 'nothing_of_that_name'",
    "declared": ", line 3: DeclarationError: pipeline 'declared', node 's': column 'id': 'TXT' is no ",
    "ends": ", line 3: SystemExit: 3",
    "both": "two.py: pipeline 'both' is declared by ",
    "absolute": ", line 1: ModuleNotFoundError: No module named 'sound'; it is beside this file: write `from .sound ",
    "dotted.name": "a file or folder with a dot in its name (pipelines/deep/dotted.name.py) cannot be imported; rename",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and the one that is worked in."""
    (tmp_path / "rivermeet.toml").touch()
    for name, text in FILES.items():
        file = tmp_path / "pipelines" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path / "pipelines" / "deep")
    monkeypatch.delenv("RIVERMEET_PROJECT", raising=False)
    return tmp_path


def test_the_others_are_loaded(folder: Path) -> None:
    project = Project.find()
    assert project.root == folder
    assert [pipeline.name for pipeline in project.pipelines] == ["below", "sound"]
    assert project.pipeline("sound").name == "sound"
    assert {file.pipeline for file in project.problems} == {*SAYS}


@pytest.mark.parametrize("name", SAYS)
def test_the_broken_one_gives_its_error(folder: Path, name: str) -> None:
    project = Project.find()
    with pytest.raises(PipelineFileError) as refused:
        project.pipeline(name)
    assert SAYS[name] in str(refused.value)
    assert str(refused.value).startswith(str(folder))
    with pytest.raises(KeyError, match=r"no pipeline 'nobody'.*; not loaded: .*import\.py, line 2"):
        project.pipeline("nobody")
    handled(
        "runs",
        "a file in `pipelines/` that raises, is no Python, or declares the name of another one",
        "every other pipeline goes on; the file is named with its line and error, in Dagster by an asset that fails",
    )


def test_a_module_is_of_its_project_alone(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "pipelines").mkdir()
    (other / "pipelines" / "sound.py").write_text(SOUND.replace("NAME", "other"))
    before = {*sys.modules}
    assert [one.name for one in load_files(other, ["pipelines/**/*.py"])[0]] == ["other"]
    assert [one.name for one in load_files(folder, ["pipelines/sound.py"])[0]] == ["sound"]
    assert all(name.startswith((package_of(other), package_of(folder))) for name in {*sys.modules} - before)
    # Loaded once: a node is the same one for all who ask.
    assert load_files(folder, ["pipelines/sound.py"])[0][0] is load_files(folder, ["pipelines/shares.py"])[0][0]


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    (found,) = load_files(tmp_path, ["pipelines/shop.py", "pipelines/*.py"])[1]
    assert str(found) == f"{tmp_path}/pipelines/shop.py: is not there; `pipelines` of rivermeet.toml names it"


def test_running_it_is_one_line_and_a_status(folder: Path) -> None:
    from rivermeet.assets.cli.main import main

    done = CliRunner().invoke(main, ["run", "import"])
    assert done.exit_code == 1
    assert done.output == f"Error: {folder}/pipelines/import.py{SAYS['import']}\n"


def test_dagster_shows_it_and_loads_the_rest(folder: Path) -> None:
    from rivermeet.assets.definitions import definitions

    found = definitions(Project.find())
    keys = {key.to_user_string() for key in found.resolve_asset_graph().get_all_asset_keys()}
    assert {"not_loaded/syntax", "not_loaded/two", "sound/s_changelog"} <= keys
    broken = found.get_assets_def(dg.AssetKey(["not_loaded", "import"]))
    assert SAYS["import"] in str(broken.descriptions_by_key)
    assert not dg.materialize([broken], raise_on_error=False).success
