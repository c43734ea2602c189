"""The files that one epoch of a source reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from rivermeet.infra.source_range import Origin, SourceRange
from rivermeet.pipelines.plural import pluralize

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
