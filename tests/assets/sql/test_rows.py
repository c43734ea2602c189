"""`rivermeet show`, the formats of its rows, and what a notebook gets: as of the newest commit."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from rivermeet.assets.cli.main import main
from rivermeet.assets.sql.query import QueryError
from rivermeet.infra.settings import Settings
from tests.assets.home import project_in
from tests.assets.sql.test_query import committed

HEADER = "id,n,who,_timestamp,_partition,_offset"
STOCK = [("d", 40, None), ("c", 30, "ines"), ("a", 1, None)]
"""The folded table and its tail together, the newest first."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    committed(str(tmp_path / "tables"))
    monkeypatch.setenv("RIVERMEET_HOME", str(tmp_path))
    monkeypatch.delenv("RIVERMEET_TABLES", raising=False)
    return tmp_path


def asked(*given: str) -> Result:
    return CliRunner().invoke(main, list(given))


def test_a_table_shows_the_newest_rows(home: Path) -> None:
    lines = asked("show", "shop.stock", "--limit", "2").output.splitlines()
    assert [line.split()[:3] for line in lines[2:4]] == [["d", "40", "null"], ["c", "30", "ines"]]
    assert lines[4:] == ["1 more row: --limit, or --all"]
    assert len(asked("show", "shop.stock", "--all").output.splitlines()) == 5


def test_csv_and_json_on_the_terminal(home: Path) -> None:
    assert asked("show", "shop.stock", "--format", "csv", "--limit", "2").output.splitlines() == [
        HEADER,
        "d,40,,50,0,5",
        "c,30,ines,40,0,4",
    ]
    lines = asked("show", "shop.stock", "--json").output.splitlines()
    assert [tuple(json.loads(line)[c] for c in ("id", "n", "who")) for line in lines] == STOCK
    nested = asked("show", "shop.clicks.changelog", "--format", "csv").output.splitlines()
    assert nested[1].startswith('"{""id"": ""a""}","{""n"": 1}"')


@pytest.mark.parametrize("name", ["stock.csv", "stock.jsonl", "stock.parquet"])
def test_a_file_has_all_rows_of_a_query_in_the_format_of_its_name(home: Path, name: str) -> None:
    done = asked("sql", "SELECT id, n FROM shop.stock ORDER BY id", "--limit", "1", "-o", str(home / name))
    assert (done.exit_code, done.output) == (0, "")
    read = {
        ".csv": lambda path: [line.split(",")[0] for line in path.read_text().splitlines()[1:]],
        ".jsonl": lambda path: [json.loads(line)["id"] for line in path.read_text().splitlines()],
        ".parquet": lambda path: pq.read_table(path)["id"].to_pylist(),
    }[Path(name).suffix]
    assert read(home / name) == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("show", "shop"), "'shop' is no name: write PIPELINE.NODE"),
        (("show", "shop.stock; DROP"), "is no name"),
        (("show", "shop.none"), "shop.none is not there, or has committed nothing; there are: shop.clicks, shop.stock"),
        (("show", "shop.stock", "--format", "parquet"), "Parquet is a file: give its name with -o"),
        (("sql", "FROM shop.stock", "-o", "rows.txt"), "a table is for the terminal; give --format, or a name with"),
    ],
)
def test_what_is_refused(home: Path, given: tuple[str, ...], says: str) -> None:
    done = asked(*given)
    assert done.exit_code != 0 and says in done.output, done.output


def test_a_notebook_gets_what_is_committed(home: Path, settings: Settings) -> None:
    project = project_in(home, settings)
    rows = project.table("shop.stock")
    assert len(rows) == 3 and rows.to_arrow().column("id").to_pylist() == ["d", "c", "a"]
    assert list(rows.to_pandas()["n"]) == [40, 30, 1]
    assert rows.to_duckdb().filter("who IS NOT NULL").fetchall()[0][:3] == ("c", 30, "ines")
    assert "<table" in rows._repr_html_()
    # By Arrow's interface, as polars reads it.
    import pyarrow as pa

    assert pa.table(rows).num_rows == 3
    with pytest.raises(QueryError, match=r"shop\.none is not there"):
        project.table("shop.none")
