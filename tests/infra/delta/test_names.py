"""No name reaches SQL unquoted: a shop where every name is ``x'; DROP TABLE y; --`` and worse runs like any other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.quality.quality_table import last_states
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.settings import PROJECT, Settings, SettingsError
from tests.assets.home import asked
from tests.infra.delta.odd_names import NAME, NUMBER, ODD, ODD_HOME, OWNER, PRICE, TOWN, Shop
from tests.reliability import survived

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]

ORDERS, OWNERS = (NUMBER, OWNER, PRICE, "at"), (NAME, TOWN, "at")
ANN, BOB = f"ann {ODD}", "bob'; --"
CLIENT = """
from rivermeet.infra.engine.session import session
from rivermeet.infra.settings import Settings
print(session(Settings.from_env()).range(3).count())
"""


@pytest.fixture(scope="module")
def shop(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Two deliveries, a run after each: inserts, a dead row, an update that is merged, and a new owner."""
    home = tmp_path_factory.mktemp("names") / f"home {ODD_HOME}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DAGSTER_HOME", str(home / "dagster"))
        made = Shop.below(home, settings)
        made.deliver("orders", f"1 {ODD}", ORDERS, (ODD, ANN, 1, 10), ("o2", BOB, 2, 11), ("o3", ANN, "dear", 12))
        made.deliver("owners", f"1 {ODD}", OWNERS, (ANN, ODD, 5))
        assert made.run(), made.said
        made.deliver("orders", f"2 {ODD}", ORDERS, (ODD, BOB, 3, 20))
        made.deliver("owners", f"2 {ODD}", OWNERS, (BOB, "Leith", 21))
        assert made.run(), made.said
        yield made


def test_rows_are_those_of_plain_names(shop: Shop, spark: SparkSession) -> None:
    paths = shop.project.context(shop.pipeline).paths(shop.node("owned"))
    table = open_table(paths.table)
    assert table is not None
    rows = [row.asDict() for row in read(spark, paths.table, table.version()).collect()]
    found = {row[NUMBER]: (row[OWNER], row[PRICE], row[TOWN]) for row in rows}
    assert found == {ODD: (BOB, 3, "Leith"), "o2": (BOB, 2, "Leith")}
    survived("tables, columns, keys and files called x'; DROP TABLE y; --", "rows as with plain names", len(found))
    assert Path(paths.changelog).is_dir() and str(paths.changelog).startswith(str(shop.project.settings.home))


def test_a_dead_row_names_its_file(shop: Shop, spark: SparkSession) -> None:
    path = shop.project.context(shop.pipeline).paths(shop.node("orders")).dead_letter
    (row,) = read(spark, path, 0).collect()
    assert (Path(row.file).name, row.line is None or row.line > 1) == (f"1 {ODD}.csv", True)
    assert row.reason == f"column '{PRICE}': 'dear' is not INT"


def test_every_check_was_evaluated_and_its_sql_runs_as_it_stands(shop: Shop) -> None:
    quality = open_table(shop.project.quality.table)
    assert quality is not None
    lines = quality.to_pyarrow_dataset().to_table().to_pylist()
    assert {line["node"] for line in lines} == {"orders", "owners", "owned"}
    assert {(line["state"], line["error"]) for line in lines} == {("passed", None)}
    for line in lines:
        assert asked(shop.project, line["sql"]) == [], line["invariant"]


def test_what_is_kept_for_people_is_in_the_home(shop: Shop) -> None:
    project = shop.project
    assert all(state == "passed" for state, *_ in last_states(project.quality, shop.node("owned")).values())
    assert "owned" in status_table(project, shop.pipeline)
    pages = list((project.settings.reports / "gx/docs/runs").glob("*.html"))
    assert pages and all("odd_names.owned, epoch" in page.read_text() for page in pages)
    found = last_note(project.context(shop.pipeline).paths(shop.node("orders")).changelog)
    assert found is not None and found[1].epoch == 2
    assert [path.name for path in project.settings.home.parent.iterdir()] == [project.settings.home.name]


def test_the_engine_starts_in_such_a_home(settings: Settings, tmp_path: Path) -> None:
    home = tmp_path / f"home {ODD_HOME}"
    own = replace(settings, home=home, tables=str(home / "tables"), engine_memory="1g", engine_idle_minutes=0.1)
    done = subprocess.run(
        [sys.executable, "-c", CLIENT],
        cwd=PROJECT,
        env=os.environ | own.environ(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.split() == ["3"], done.stderr


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        *(("RIVERMEET_HOME", name) for name in ("100%41", "a\\b", "a#", "a?", "[a", "a]", "a^b", "a|b")),
        *(("RIVERMEET_TABLES", name) for name in ("100%41", "a\\b", "a#", "a?")),
    ],
)
def test_what_delta_rs_would_look_for_elsewhere_is_refused(tmp_path: Path, variable: str, name: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{variable}=.* has .* in it, .*; name a folder without it$"):
        Settings.from_env({variable: str(tmp_path / name)})
