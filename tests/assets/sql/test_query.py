"""`rivermeet sql`: names of committed tables, their rows now and at a version, and nothing but reading."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import CommitProperties, write_deltalake

from rivermeet.assets.cli.main import main
from rivermeet.assets.sql.query import CommittedState, QueryError
from rivermeet.infra.commit_note import CommitNote

Record = tuple[str | None, Mapping[str, Any] | None, int]
"""Key, value, offset; of partition 0."""


def put(
    tables: str, node: str, epoch: int, records: Sequence[Record], value: pa.DataType, kind_of: str = "stream"
) -> None:
    """Commit an epoch of a node's changelog as a run does: with its note."""
    kind = pa.schema(
        [
            ("key", pa.struct([("id", pa.string())])),
            ("value", value),
            *(("timestamp", pa.int64()), ("partition", pa.int32()), ("offset", pa.int64()), ("epoch", pa.int64())),
        ]
    )
    rows = [
        {
            "key": None if key is None else {"id": key},
            "value": given,
            **{"timestamp": 10 * offset, "partition": 0, "offset": offset, "epoch": epoch},
        }
        for key, given, offset in records
    ]
    declared = {"kind": kind_of}
    note = CommitNote(epoch=epoch, ends={0: records[-1][2]}, incarnation=1, declared=declared)
    _write(f"{tables}/shop/{node}/changelog", pa.Table.from_pylist(rows, kind), note)


def fold(tables: str, node: str, epoch: int, end: int, rows: pa.Table) -> None:
    _write(f"{tables}/shop/{node}/table", rows, CommitNote(epoch=epoch, ends={0: end}, incarnation=1))


def _write(path: str, rows: pa.Table, note: CommitNote) -> None:
    commit = CommitProperties(custom_metadata={"userMetadata": note.model_dump_json()})
    write_deltalake(path, rows, mode="append", schema_mode="merge", commit_properties=commit)


N = pa.struct([("n", pa.int32())])
MORE = pa.struct([("n", pa.int32()), ("who", pa.string())])


@pytest.fixture
def state(tmp_path: Path) -> CommittedState:
    """What is committed in a folder."""
    committed(str(tmp_path / "tables"))
    return CommittedState(str(tmp_path / "tables"), str(tmp_path / "quality"))


def committed(tables: str) -> None:
    """A stream of two epochs, and a table that is folded up to the first one of two."""
    put(tables, "clicks", 1, [("a", {"n": 1}, 0), (None, {"n": 2}, 1)], N)
    put(tables, "stock", 1, [("a", {"n": 1}, 0), ("b", {"n": 2}, 1), ("c", {"n": 3}, 2)], N)
    folded = {"id": ["a", "b", "c"], "n": pa.array([1, 2, 3], pa.int32()), "_timestamp": [0, 10, 20]}
    place = {"_partition": pa.array([0, 0, 0], pa.int32()), "_offset": [0, 1, 2]}
    fold(tables, "stock", 1, 2, pa.table(folded | place))
    put(
        tables,
        "stock",
        2,
        [("b", None, 3), ("c", {"n": 30, "who": "ines"}, 4), ("d", {"n": 40, "who": None}, 5)],
        MORE,
    )


def ask(state: CommittedState, query: str, tmp_path: Path) -> list[dict[str, Any]]:
    return state.ask(query, "1g", tmp_path / "spill").to_pylist()


def test_what_a_table_has_now(state: CommittedState, tmp_path: Path) -> None:
    """Its fold, with what came since: b is gone, c is new, and has a column that the fold lacks."""
    rows = ask(state, "SELECT id, n, who, _offset FROM shop.stock ORDER BY id", tmp_path)
    assert [tuple(row.values()) for row in rows] == [("a", 1, None, 0), ("c", 30, "ines", 4), ("d", 40, None, 5)]


def test_what_a_table_has_that_was_never_folded(tmp_path: Path) -> None:
    tables = str(tmp_path / "tables")
    put(tables, "fresh", 1, [("a", {"n": 1}, 0), ("b", {"n": 2}, 1), ("a", {"n": 3}, 2), ("b", None, 3)], N, "table")
    state = CommittedState(tables, str(tmp_path / "quality"))
    assert [(row["id"], row["n"]) for row in ask(state, "FROM shop.fresh", tmp_path)] == [("a", 3)]


def test_behind_a_url(s3: str, tmp_path: Path) -> None:
    """By the client that reads the store's tables: what it has now, at a version, and what there is."""
    committed(s3)
    state = CommittedState(s3, f"{s3}/_quality")
    query = "SELECT id, n, who, (SELECT count(*) FROM shop.stock.changelog AT (VERSION => 0)) AS n0 FROM shop.stock"
    rows = ask(state, f"{query} ORDER BY id", tmp_path)
    assert [tuple(row.values()) for row in rows] == [("a", 1, None, 3), ("c", 30, "ines", 3), ("d", 40, None, 3)]
    assert state.names() == ["shop.clicks.changelog", "shop.stock.changelog", "shop.stock.table"]


def test_what_a_stream_has_now(state: CommittedState, tmp_path: Path) -> None:
    rows = ask(state, "FROM shop.clicks SELECT id, n, _timestamp ORDER BY _offset", tmp_path)
    assert [tuple(row.values()) for row in rows] == [("a", 1, 0), (None, 2, 10)]


def test_records_as_they_were_committed(state: CommittedState, tmp_path: Path) -> None:
    """A column that came later is null before, and nothing of a later file is left out."""
    rows = ask(state, 'SELECT value, epoch FROM shop.stock.changelog ORDER BY "offset"', tmp_path)
    assert [row["value"] for row in rows] == [
        *({"n": n, "who": None} for n in (1, 2, 3)),
        *(None, {"n": 30, "who": "ines"}, {"n": 40, "who": None}),
    ]
    assert [row["epoch"] for row in rows] == [1, 1, 1, 2, 2, 2]


def test_a_table_at_a_version(state: CommittedState, tmp_path: Path) -> None:
    query = "SELECT count(*) AS n FROM shop.stock.changelog AT (VERSION => 0)"
    assert ask(state, query, tmp_path) == [{"n": 3}]
    for version in (7, -1):
        with pytest.raises(QueryError, match=f"shop.stock.changelog has no version {version}: its newest is 1"):
            ask(state, f"FROM shop.stock.changelog AT (VERSION => {version})", tmp_path)
    with pytest.raises(QueryError, match=r"give the version of one of them, as in shop.stock.changelog AT"):
        ask(state, "FROM shop.stock AT (VERSION => 0)", tmp_path)


def test_a_name_of_the_querys_own(state: CommittedState, tmp_path: Path) -> None:
    assert ask(state, "WITH quality AS (SELECT 1 AS x) FROM quality", tmp_path) == [{"x": 1}]


def test_names_in_all_places_of_a_query(state: CommittedState, tmp_path: Path) -> None:
    query = """
    WITH live AS (SELECT * FROM shop.stock) SELECT s.id FROM live s
    WHERE s.n > (SELECT min(n) FROM shop.stock.table) AND EXISTS (SELECT 1 FROM "shop"."clicks" c WHERE c.id <> s.id)
    ORDER BY 1"""
    assert [row["id"] for row in ask(state, query, tmp_path)] == ["c", "d"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("DELETE FROM shop.stock", "only SELECT, FROM, DESCRIBE, SUMMARIZE and SHOW read"),
        ("COPY (SELECT 1) TO '/tmp/x.csv'", "only SELECT"),
        ("SELECT 1; SELECT 2", "write one query"),
        ("SELEC 1", "syntax error"),
        ("FROM shop.stok", "shop.stok is not there, or has committed nothing; there are: shop.clicks, shop.stock"),
        ("FROM shop.stock.late", "shop.stock.late is not there"),
        ("FROM shop.stock.lately", "is no table: write PIPELINE.NODE, or one of changelog, table"),
        ("SELECT nothing FROM shop.stock", 'column "nothing" not found'),
        ("FROM stock", "Table with name stock does not exist"),
    ],
)
def test_what_is_refused(state: CommittedState, tmp_path: Path, query: str, says: str) -> None:
    with pytest.raises(QueryError) as refused:
        ask(state, query, tmp_path)
    assert says.lower() in str(refused.value).lower()


def test_the_command(state: CommittedState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIVERMEET_HOME", str(tmp_path))
    monkeypatch.delenv("RIVERMEET_TABLES", raising=False)

    def said(*given: str) -> list[str]:
        return CliRunner().invoke(main, ["sql", *given]).output.splitlines()

    assert said() == ["shop.clicks.changelog", "shop.stock.changelog", "shop.stock.table"]
    assert said("SELECT id, n, who FROM shop.stock ORDER BY id", "--limit", "2") == [
        "id   n  who",
        "--  --  ----",
        "a    1  null",
        "c   30  ines",
        "1 more row: --limit, or --json for all",
    ]
    assert said("SELECT id, who FROM shop.stock ORDER BY id", "--json")[1] == '{"id":"c","who":"ines"}'
    no_numbers = said("SELECT 'nan'::DOUBLE AS n, ['-inf'::FLOAT, 1.5] AS l, 'NaN' AS t", "--json")[0]
    assert json.loads(no_numbers, parse_constant=pytest.fail) == {"n": "NaN", "l": ["-Infinity", 1.5], "t": "NaN"}
    assert said("FROM shop.x")[-1].startswith("Error: shop.x is not there")
