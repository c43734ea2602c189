"""The versions of a Delta table that one epoch of a source reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rivermeet.infra.source_range import Origin, SourceRange
from rivermeet.pipelines.plural import pluralize


class VersionRange(SourceRange):
    """The versions ``[start, end]`` of a Delta table; ``end + 1`` is where the next range starts.

    ``id`` distinguishes the table from a later one at its path. ``snapshot`` is a version that is read completely
    before the others. ``passed`` are skipped versions of the range, and ``lost`` those that were gone before they were
    read, ``[first, last]``; both were accepted. ``rows`` is the approximate number of rows.
    """

    kind: ClassVar[str] = "delta"
    path: str
    id: str
    start: int
    end: int
    snapshot: int | None = None
    passed: tuple[int, ...] = ()
    lost: tuple[int, int] | None = None
    rows: int = 0

    @property
    def unread(self) -> bool:
        """Whether it contains any version."""
        return self.snapshot is not None or self.end >= self.start

    @property
    def records(self) -> int:
        """The approximate number of rows."""
        return self.rows

    @property
    def description(self) -> str:
        """Describe the range."""
        whole = [] if self.snapshot is None else [f"version {self.snapshot} whole"]
        some = [f"versions {self.start} to {self.end}"] if self.end >= self.start else []
        return f"{', '.join([*whole, *some]) or 'no version'} of Delta table '{self.path}'"

    def warnings(self, *, hashed: bool) -> Iterator[str]:
        """Versions that are lost or skipped."""
        if self.lost is not None:
            yield f"versions {self.lost[0]} to {self.lost[1]} of table {self.path} are lost, as was accepted"
        if self.passed:
            yield f"versions {', '.join(map(str, self.passed))} of table {self.path} are skipped, as was accepted"

    def describe_loss(self, rows: int) -> str:
        """Describe what was read, and what was lost or skipped."""
        parts = [f"lost: versions {self.lost[0]} to {self.lost[1]}"] if self.lost is not None else []
        parts += [f"skipped: versions {', '.join(map(str, self.passed))}"] if self.passed else []
        lost = "; ".join(parts) or "no version of this table is lost"
        return f"{pluralize(rows, 'record')} read of {self.description}; {lost}"

    def metadata(self, now_ms: float) -> Mapping[str, Any]:
        """The last version."""
        return {"version_in": self.end}

    @classmethod
    def place(cls, file: str, line: int | None) -> str:
        """Path and version."""
        return f"Delta table '{file}', version {line}"

    def among(self, epoch: int) -> Origin:
        """The versions that were read."""
        return Origin(self.path, None, f"one of {self.description}")
