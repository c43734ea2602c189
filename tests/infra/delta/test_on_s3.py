"""Delta tables on S3 without Spark: staged rows, lines, logs that are cut; and a store that fails at random."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import IntegerType, LongType, StructType

from infra.delta import lines
from infra.delta.care.maintenance import maintain_lines
from infra.delta.care.table_care import Retention
from infra.delta.fence import LeaseLostError, raise_fence
from infra.delta.io import last_note
from infra.delta.lines import append_lines, lines_of, opened
from infra.delta.location import files_below
from infra.delta.staged import Staged, commit_staged
from infra.epochs.plan import CommitNote
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
    assert opened(path) is None
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
    first = opened(path)
    assert first is not None and opened(path) is first
    append_lines([{"n": 2}], LINES, path, "a", 2)
    second, then = opened(path), opened(path, 0)
    assert second is not None and then is not None
    assert (first.version(), second.version(), then.version()) == (0, 1, 0)

    def opens(*given: object, **named: object) -> None:
        raise AssertionError("it is known")

    monkeypatch.setattr(lines, "DeltaTable", opens)
    assert lines.commit_file(path, 2) is None
    assert lines.commit_file(path, 1) == lines.commit_file(path, 1) != lines.commit_file(path, 0)
    assert opened(path) is second and opened(path, 0) is then and opened(path, 1) is second


def test_another_table_of_the_same_version_is_seen(s3: str) -> None:
    path = f"{s3}/t"
    append_lines([{"n": 1}], LINES, path, "a", 1)
    assert opened(path) is not None
    storage = files_below(path)
    for file in ("_delta_log/00000000000000000000.json",):
        storage.delete_file(file)
    assert opened(path) is None
    append_lines([{"n": 2}], LINES, path, "b", 1)
    other = opened(path)
    assert other is not None and lines_of(other, path, LINES, lambda files: files).to_table()["n"].to_pylist() == [2]


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
