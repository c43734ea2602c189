"""Files of this machine as they land: whole or not at all, and no more of them than the bound."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivermeet.infra.sources.files.landing import lines as line_reader
from rivermeet.infra.sources.files.landing.files import LandedFiles, UnreadableError, land
from rivermeet.infra.sources.files.landing.lines import Lines
from rivermeet.infra.sources.files.line_formats import Place
from rivermeet.pipelines import limits


def texts(lines: Lines) -> Iterator[Sequence[pa.Array]]:
    for numbers, found in lines:
        if "refused" in found.to_pylist():
            raise UnreadableError("it has a line that is refused")
        yield numbers, found, pa.nulls(len(found), pa.string())


def landed(root: Path, *more: str) -> tuple[LandedFiles, list[tuple[str, int, int, str]]]:
    """What has landed, and the rows that are read of it: name, row, line and text."""
    paths = [*map(str, sorted(path for path in root.iterdir() if path.is_file())), *more]
    folder = root / "landing"
    folder.mkdir()
    found = land(folder, pa.schema([]), {path: Place(at, 5) for at, path in enumerate(paths)}, None, texts)
    tables = [pq.read_table(path) for path in sorted(folder.iterdir())]
    rows = [row for table in tables for row in table.to_pylist() if row["file_rank"] not in found.passed_over]
    return found, [(Path(row["file"]).name, row["row"], row["line"], row["text"]) for row in rows]


def test_each_line_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("x\n\ny\n")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b"z"))
    found, rows = landed(tmp_path, "s3a://bucket/c.json")
    assert rows == [("a.json", 0, 1, "x"), ("a.json", 1, 3, "y"), ("b.json.gz", 0, 1, "z")]
    assert (found.problems, dict(found.left)) == ({}, {"s3a://bucket/c.json": Place(2, 5)})


def test_a_file_lands_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "BLOCK_BYTES", 1 << 10)
    lines = b"".join(b"%d\n" % n for n in range(50_000))
    (tmp_path / "a.json").write_bytes(lines + b"refused\n")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(lines)[:-4])
    (tmp_path / "c.json").write_text("x\n")
    found, rows = landed(tmp_path)
    assert rows == [("c.json", 0, 1, "x")]
    assert [Path(path).name for path in found.problems] == ["a.json", "b.json.gz"]


def test_beyond_the_bound_files_are_left_to_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what they are unpacked: 1.5 kB of gzip that hold a megabyte are left, and what comes after them."""
    monkeypatch.setattr(limits, "DRIVER_FILES_BYTES", 100_000)
    (tmp_path / "a.json").write_bytes(b"x\n" * 10_000)
    (tmp_path / "b.json").write_bytes(b"x\n" * 45_000)
    (tmp_path / "c.json").write_bytes(b"y\n" * 10_000)
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(b"x\n" * 500_000))
    (tmp_path / "e.json").write_bytes(b"z\n")
    found, rows = landed(tmp_path)
    assert {name for name, *_ in rows} == {"a.json", "c.json"} and len(rows) == 20_000
    assert [Path(path).name for path in found.left] == ["b.json", "d.json.gz", "e.json"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_of_which_a_part_cannot_be_read_is_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        archive.writestr("a.csv", "old\n")
        archive.writestr("a.csv", "new\n")
    with zipfile.ZipFile(tmp_path / "xz.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.csv", "x\n" * 50_000)
    whole = (tmp_path / "xz.zip").read_bytes()
    (tmp_path / "xz.zip").write_bytes(whole[:60] + bytes(20) + whole[80:])
    found, rows = landed(tmp_path)
    assert rows == []
    assert [(Path(path).name, why[:50]) for path, why in found.problems.items()] == [
        ("twice.zip", "the file cannot be read: the archive has two membe"),
        ("xz.zip", "the file cannot be read: Corrupt input data"),
    ]


def test_a_file_that_is_gone_fails_the_attempt(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        landed(tmp_path, str(tmp_path / "gone.json"))
