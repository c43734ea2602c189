"""The files that one epoch of a source reads; one with the same bytes as an earlier one is not read a second time.

    in/a.csv        loaded
    in/copy.csv     the same bytes: one dead letter that names in/a.csv, no records
    in/b.csv        0 bytes: no record
    in/c.csv        0 bytes: no record, and not a duplicate of b.csv, because no row is repeated

A known name with other bytes is refused elsewhere (``infra/sources/files/discovery.py``). The plan contains a
digest of every local file, whatever its size: that is one more pass over the bytes, at hundreds of megabytes
a second, and covers files that no longer exist. Files at other URLs have no digest, and are read. Held by
``tests/infra/sources/test_bad_input.py``.
"""

from __future__ import annotations

import gzip
import hashlib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from rivermeet.infra.source_range import Origin, SourceRange
from rivermeet.infra.sources.files.discovery import FileState
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.source import FileFormat

BYTES_A_RECORD = 32
"""Estimated bytes per record, before a file is read."""


class PlannedFile(BaseModel, frozen=True, extra="forbid"):
    """The state of a file when it was planned; times in epoch millis, length in bytes.

    Only local files have ``sha256``. ``duplicate_of`` names a file with the same bytes: this one is not read.
    """

    path: str
    length: int
    modified_ms: int
    sha256: str | None = None
    duplicate_of: str | None = None


class FileList(SourceRange):
    """Files that are each read completely, or not at all; the first epoch of a source may have none."""

    kind: ClassVar[str] = "files"
    is_counted: ClassVar[bool] = True
    files: tuple[PlannedFile, ...] = ()

    @property
    def records(self) -> int:
        """The estimated number of records."""
        return sum(file.length for file in self.files) // BYTES_A_RECORD

    @property
    def description(self) -> str:
        """The number of files."""
        return pluralize(len(self.files), "file")

    @property
    def paths(self) -> tuple[str, ...]:
        """Their paths."""
        return tuple(file.path for file in self.files)

    def parts(self) -> Iterator[str]:
        """Each file."""
        yield from (f"{file.path}{', a duplicate' if file.duplicate_of else ''}" for file in self.files)

    def measure(self) -> Mapping[str, Any]:
        """How many there are, and when the newest was written."""
        return {"files": len(self.files), "delivered_at": max((f.modified_ms for f in self.files), default=None)}

    def metadata(self, now_ms: float) -> Mapping[str, Any]:
        """The number of files."""
        return {"files": len(self.files)}

    def to_json(self) -> Any:
        """Their paths."""
        return list(self.paths)

    @classmethod
    def place(cls, file: str, line: int | None) -> str:
        """File and line."""
        return f"{file}, line {line}" if line is not None else f"{file}, in a line that the engine has not counted"

    def has_changed(self, file: str) -> bool:
        """Whether a file is no longer as long as it was when it was read; of one that is gone, False."""
        path = file.partition("!")[0]
        planned = next((one for one in self.files if one.path == path), None)
        try:
            return planned is not None and Path(path).stat().st_size != planned.length
        except OSError:
            return False

    def warning(self, file: str) -> str:
        """That the file of a record was changed since."""
        return " (the file was changed since it was read)" if self.has_changed(file) else ""

    def among(self, epoch: int) -> Origin:
        """The only file, or how many there were."""
        files = [file.path for file in self.files if not file.duplicate_of]
        if len(files) == 1:
            return Origin(files[0], None, files[0])
        among = f"one of the {pluralize(len(files), 'file')} of " if files else ""
        return Origin(None, None, f"{among}epoch {epoch}")


def hash_files(states: Iterable[FileState]) -> list[PlannedFile]:
    """The planned files, with their digests."""
    return [
        PlannedFile(path=s.path, length=s.length, modified_ms=s.modified_ms, sha256=_digest(s.path)) for s in states
    ]


def mark_duplicates(
    files: Sequence[PlannedFile], loaded: Iterable[PlannedFile], format: FileFormat
) -> list[PlannedFile]:
    """The files, with those that have the bytes of an earlier one marked as its duplicates."""
    originals = {_bytes(f): f.path for f in loaded if f.sha256 and not f.duplicate_of}
    found = []
    for file in files:
        original = originals.get(_bytes(file)) if file.sha256 else None
        if original is None:
            originals[_bytes(file)] = file.path
        elif _holds_rows(file.path, format):
            file = file.model_copy(update={"duplicate_of": original})
        found.append(file)
    return found


def duplicates(files: Iterable[PlannedFile]) -> dict[str, str]:
    """Path of each duplicate to why it is not read."""
    return {
        f.path: f'the file has the same bytes as {f.duplicate_of}; declare duplicate_files="read" if it is meant twice'
        for f in files
        if f.duplicate_of
    }


def _bytes(file: PlannedFile) -> tuple[int, str | None]:
    return file.length, file.sha256


def _digest(path: str) -> str | None:
    """SHA-256 of a local file, None for others; the reader reports a file that cannot be read."""
    if not path.startswith("/"):
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _holds_rows(path: str, format: FileFormat) -> bool:
    """Whether a file contains anything besides a header; a damaged one may."""
    try:
        if format == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetFile(path).metadata.num_rows > 0
        rows_from = 2 if format == "csv" else 1
        filled = ((line for line in stream if line.strip()) for stream in _streams(path))
        return any(len(list(islice(lines, rows_from))) == rows_from for lines in filled)
    except Exception:  # every compression has its own errors, and the reader will report this one
        return True


def _streams(path: str) -> Iterator[Iterable[bytes]]:
    if path.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    yield member
        return
    opener = gzip.open if path.lower().endswith(".gz") else open
    with opener(path, "rb") as file:
        yield file
