"""A few rows of a table by conditions, from the files that may have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rivermeet.infra.delta import few_rows as module
from rivermeet.infra.delta.few_rows import Where, few_rows


def no_session() -> Any:
    raise AssertionError("no session is needed")


@pytest.fixture
def path(tmp_path: Path) -> str:
    for part in range(3):
        rows = [{"key": {"id": n, "t": f"x{n}"}, "offset": n} for n in range(part * 10, part * 10 + 10)]
        write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist(rows), mode="append")
    write_deltalake(
        str(tmp_path / "t"),
        pa.table({"key": pa.array([None], pa.struct([("id", pa.int64()), ("t", pa.string())])), "offset": [30]}),
        mode="append",
    )
    return str(tmp_path / "t")


@pytest.mark.parametrize(
    ("where", "offsets"),
    [
        ([Where(("key", "id"), "==", 7)], [7]),
        ([Where(("key", "t"), "==", "x12"), Where(("key", "id"), "==", 12)], [12]),
        ([Where(("offset",), ">", 27)], [28, 29, 30]),
        ([Where(("offset",), ">", 8), Where(("offset",), "<=", 10)], [9, 10]),
        ([Where(("offset",), "in", [3, 29, 99])], [3, 29]),
        ([Where(("key",), "==", None)], [30]),
        ([Where(("key", "id"), "==", 99)], []),
        ([Where(("key", "no"), "==", 1)], []),
        ([Where(("key", "id"), "==", "no number")], []),
    ],
)
def test_rows_by_conditions(path: str, where: list[Where], offsets: list[int]) -> None:
    assert sorted(row["offset"] for row in few_rows(path, where, no_session)) == offsets


def test_files_that_cannot_have_a_row_are_not_opened(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    lines_of = module.lines_of

    def counted(table: Any, path: str, schema: Any, files: Any) -> Any:
        def chosen(every: pa.Table) -> pa.Table:
            found = files(every)
            opened.append(found.num_rows)
            return found

        return lines_of(table, path, schema, chosen)

    monkeypatch.setattr(module, "lines_of", counted)
    few_rows(path, [Where(("offset",), "==", 12)], no_session)
    few_rows(path, [Where(("key", "id"), "==", 12)], no_session)
    # The one without a key has no statistics of its key, and may have it.
    assert opened == [1, 2]


def test_no_table_has_no_rows(tmp_path: Path) -> None:
    assert few_rows(str(tmp_path / "none"), [], no_session) == []
