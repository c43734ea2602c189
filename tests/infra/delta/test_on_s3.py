"""Delta tables on S3 without Spark: staged rows, lines, logs that are cut; and a store that fails at random."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from pyspark.sql.types import IntegerType, LongType, StructType

from rivermeet.expectations.judge.duck import database
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta import lines, store_files
from rivermeet.infra.delta.fence import LeaseLostError, raise_fence
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.lines import append_lines, lines_of, open_table
from rivermeet.infra.delta.location import files_below
from rivermeet.infra.delta.scan import rows_of, scan
from rivermeet.infra.delta.staged import Staged, commit_staged
from rivermeet.infra.delta.table_care import Retention
from rivermeet.infra.epochs.maintenance import maintain_lines
from tests.faulty_s3 import faults
from tests.reliability import survived

APP = "p/n/changelog/1"
LINES = pa.schema([("n", pa.int64())])
SCHEMA = StructType().add("partition", IntegerType()).add("offset", LongType())


def stage(path: str, name: str, *offsets: int) -> Staged:
    """Rows of partition 0, as Spark would have written them."""
    rows = pa.table({"partition": pa.array([0] * len(offsets), pa.int32()), "offset": pa.array(offsets, pa.int64())})
    with files_below(path).open_output_stream(f"{name}/part-0.parquet") as out:
        pq.write_table(rows, out)
    return Staged(path, name, SCHEMA)


def note(epoch: int) -> CommitNote:
    return CommitNote(incarnation=1, epoch=epoch, ends={0: epoch})


def offsets(path: str) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table()["offset"].to_pylist())


def test_staged_rows_are_there_once_they_are_named(s3: str) -> None:
    path = f"{s3}/p/n/changelog"
    staged = stage(path, "epoch-1", 4, 5, 6)
    assert [file.path for file in staged.files] == ["epoch-1/part-0.parquet"]
    assert open_table(path) is None
    commit_staged(staged, APP, 1, note(1))
    commit_staged(stage(path, "epoch-2", 7), APP, 2, note(2))
    assert offsets(path) == [4, 5, 6, 7]
    found = last_note(path)
    assert found is not None and (found[0], found[1].epoch) == (1, 2)
    first = pa.table(DeltaTable(path).get_add_actions(flatten=True)).sort_by("min.offset").to_pylist()[0]
    assert (first["num_records"], first["min.offset"], first["max.offset"]) == (3, 4, 6)


@pytest.mark.prove
def test_of_rivals_at_the_first_epoch_and_later_ones_one_commits(s3: str) -> None:
    path = f"{s3}/p/n/changelog"
    for epoch in range(1, 9):
        rivals = [stage(path, f"epoch-{epoch}-{n}", 100 * epoch + n) for n in range(4)]

        def commit(staged: Staged, epoch: int = epoch) -> None:
            commit_staged(staged, APP, epoch, note(epoch))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(commit, rivals))
        assert [offset // 100 for offset in offsets(path)] == list(range(1, epoch + 1))


def test_behind_a_fence_no_rows_are_named(s3: str) -> None:
    path = f"{s3}/p/n/changelog"
    commit_staged(stage(path, "epoch-1", 1), APP, 1, note(1), token=1)
    late = stage(path, "epoch-2", 2)
    raise_fence(path, 2, lambda path, properties: None)
    with pytest.raises(LeaseLostError):
        commit_staged(late, APP, 2, note(2), token=1)
    assert offsets(path) == [1]
    commit_staged(late, APP, 2, note(2), token=2)
    assert offsets(path) == [1, 2]


def test_a_table_that_has_not_changed_is_not_opened_again(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{s3}/t"
    append_lines([{"n": 1}], LINES, path, "a", 1)
    first = open_table(path)
    assert first is not None and open_table(path) is first
    append_lines([{"n": 2}], LINES, path, "a", 2)
    second, then = open_table(path), open_table(path, 0)
    assert second is not None and then is not None
    assert (first.version(), second.version(), then.version()) == (0, 1, 0)

    def opens(*given: object, **named: object) -> None:
        raise AssertionError("it is known")

    monkeypatch.setattr(lines, "DeltaTable", opens)
    assert lines.commit_file(path, 2) is None
    assert lines.commit_file(path, 1) == lines.commit_file(path, 1) != lines.commit_file(path, 0)
    assert open_table(path) is second and open_table(path, 0) is then and open_table(path, 1) is second


def test_another_table_of_the_same_version_is_seen(s3: str) -> None:
    path = f"{s3}/t"
    append_lines([{"n": 1}], LINES, path, "a", 1)
    assert open_table(path) is not None
    storage = files_below(path)
    for file in ("_delta_log/00000000000000000000.json",):
        storage.delete_file(file)
    assert open_table(path) is None
    append_lines([{"n": 2}], LINES, path, "b", 1)
    other = open_table(path)
    assert other is not None and lines_of(other, path, LINES, lambda files: files).to_table()["n"].to_pylist() == [2]


WIDE = pa.schema([("n", pa.int64()), ("text", pa.string()), ("s", pa.struct([("a", pa.int64())]))])


def wide(path: str, *files: range) -> None:
    """A table of one file for each range, whose texts are most of it; groups of 1,000 rows."""
    for file in files:
        rows = pa.table([list(file), [str(n) * 50 for n in file], [{"a": n} for n in file]], schema=WIDE)
        write_deltalake(path, rows, mode="append", writer_properties=WriterProperties(max_row_group_size=1000))


def asked(path: str, query: str, chosen: Callable[[pa.Table], pa.Table] = lambda files: files) -> list[Any]:
    """Rows of a query over a scan, as the judge reads it."""
    found = scan(path, chosen=chosen)
    assert found is not None
    with database("1g", Path(gettempdir()) / "spill") as connection:
        return connection.execute(query.format(rows=f"({rows_of(found, connection)})")).fetchall()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """URL to bytes that DuckDB asked for."""
    found: dict[str, int] = {}
    reads = store_files._File.read

    def counted(file: Any, size: int = -1) -> bytes:
        part = reads(file, size)
        found[file.name] = found.get(file.name, 0) + len(part)
        return part

    monkeypatch.setattr(store_files._File, "read", counted)
    return found


def test_of_files_what_a_query_needs_is_read(s3: str, fetched: dict[str, int]) -> None:
    """Of the chosen files the columns that it names, and groups of rows that may have what it looks for."""
    path = f"{s3}/it's a table"
    wide(path, range(20_000), range(20_000, 40_000))
    sizes = pa.table(DeltaTable(path).get_add_actions(flatten=True))["size_bytes"].to_pylist()

    def older(files: pa.Table) -> pa.Table:
        return files.filter(pc.field("max.n") < 20_000)

    assert asked(path, "SELECT count(*), sum(n) FROM {rows}", older) == [(20_000, sum(range(20_000)))]
    assert len(fetched) == 1, "one of two files"
    assert 0 < sum(fetched.values()) < min(sizes) / 2, "without the texts"
    fetched.clear()
    assert asked(path, "SELECT text FROM {rows} WHERE n = 31000") == [("31000" * 50,)]
    assert sum(fetched.values()) < sum(sizes) / 2, "without the other groups"
    assert asked(path, "SELECT count(DISTINCT text) FROM {rows}") == [(40_000,)]


def test_of_a_store_that_fails_at_random_the_rows_are_read(s3: str, unreliable: str) -> None:
    path = f"{s3}/t"
    wide(path, *(range(1000 * n, 1000 * n + 1000) for n in range(8)))
    for _ in range(3):
        assert asked(path, "SELECT count(*), count(DISTINCT text), sum(s.a) FROM {rows}") == [
            (8000, 8000, sum(range(8000)))
        ]
    assert faults(unreliable)["refused"] > 1


def test_lines_are_maintained(s3: str) -> None:
    path = f"{s3}/_epochs/p"
    for n in range(12):
        append_lines([{"n": n}], LINES, path, "a", n + 1)
    (done,) = maintain_lines(path, "epoch log", Retention(versions=1, small_files=4))
    assert done.live == 1 and "optimized" in done.did and "log cut" in done.did
    append_lines([{"n": 12}], LINES, path, "a", 13)
    assert sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist()) == list(range(13))


@pytest.mark.prove
def test_on_a_store_that_fails_at_random_nothing_is_lost_or_doubled(s3: str, unreliable: str) -> None:
    path, log = f"{s3}/p/n/changelog", f"{s3}/_epochs/p"

    def epoch(n: int) -> None:
        for who in range(2):
            append_lines([{"n": n}], LINES, log, f"plan/{n}", 1)
            commit_staged(stage(path, f"epoch-{n}-{who}", n), APP, n, note(n))

    for n in range(1, 9):
        epoch(n)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: append_lines([{"n": n}], LINES, log, f"plan/{n}", 1), range(9, 21)))
    assert offsets(path) == list(range(1, 9))
    assert sorted(DeltaTable(log).to_pyarrow_table()["n"].to_pylist()) == list(range(1, 21))
    counts = faults(unreliable)
    assert min(counts[kind] for kind in ("refused", "unanswered", "late")) > 3, counts
    survived(
        "requests to S3 that were refused, or done and not answered",
        "no row lost or doubled",
        counts["refused"] + counts["unanswered"],
    )
