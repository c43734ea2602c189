"""One table under maintenance: its files, which of them may be removed, and what was done.

Files are counted in the folder, including those that no version names. A file may be removed if the newest version did
not have it before maintenance began and it is older than the bound; VACUUM itself checks whether an older version that
is needed has it. Held by ``tests/infra/delta/test_maintenance.py``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.location import StoredFile, cut_log, list_files

_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Retention:
    """Retention settings.

    Attributes
    ----------
    versions
        Newest versions of each table that stay readable in any case.
    small_files
        Number of small files, and of files that no version needs, that a table may have.
    late, dead_letter, measured
        Number of epochs whose late rows, dead letters and measurements are kept; None: all. Only the epoch of a row
        shows when it came.
    """

    versions: int = 200
    small_files: int = 32
    late: int | None = None
    dead_letter: int | None = None
    measured: int | None = None


@dataclass(frozen=True)
class Maintained:
    """The maintenance that was done on a table.

    Attributes
    ----------
    live
        Data files of the newest version.
    files, size
        Files and bytes of the folder, before and after.
    """

    table: str
    did: Sequence[str]
    live: int
    files: tuple[int, int]
    size: tuple[int, int]


class TableCare:
    """The state of a table before maintenance."""

    def __init__(self, path: str, table: DeltaTable, keep: Retention) -> None:
        self.path = path
        self.did: list[str] = []
        self._keep = keep
        self._table = table
        self._files = list_files(path)
        self._live = set(_column(table, "path"))

    @property
    def has_many_deletion_vectors(self) -> bool:
        """Whether earlier versions have left many deletion vectors."""
        return sum(f.path.startswith("deletion_vector_") for f in self._files) > self._keep.small_files

    def has_many_small_files(self, small: int) -> bool:
        """Whether many live files have fewer bytes than ``small``."""
        return sum(size < small for size in _column(self._table, "size_bytes")) > self._keep.small_files

    def lacks(self, properties: Mapping[str, str]) -> bool:
        """Whether a property of the table differs."""
        configuration = self._table.metadata().configuration
        return any(configuration.get(name) != value for name, value in properties.items())

    def has_before(self, epoch: int) -> bool:
        """Whether a row may belong to an earlier epoch, according to statistics."""
        return any(first is not None and first < epoch for first in _column(self._table, "min.epoch"))

    def hours(self, oldest: int) -> int | None:
        """Hours that VACUUM must retain to keep version ``oldest``; None if nothing may or need be removed."""
        made = next((int(c["timestamp"]) for c in self._now().history() if c["version"] == oldest), None)
        if oldest <= 0 or made is None:
            return None
        # VACUUM takes whole hours, and counts back from its start, which is later than now.
        hours = int(time.time() * 1000 - made) // _HOUR_MS + 2
        bound = datetime.fromtimestamp(time.time() - hours * 3600, UTC)
        strays = [f for f in self._files if f.is_data and f.path not in self._live and f.written < bound]
        return hours if len(strays) > self._keep.small_files else None

    def done(self, name: str, oldest: int) -> Maintained:
        """Cut the log below version ``oldest``, and record that."""
        if cut_log(self.path, list_files(self.path), oldest):
            self.did.append("log cut")
        after = list_files(self.path)
        live = len(_column(self._now(), "path"))
        files, size = (len(self._files), len(after)), (_bytes(self._files), _bytes(after))
        return Maintained(name, tuple(self.did), live, files, size)

    def _now(self) -> DeltaTable:
        table = open_table(self.path)
        assert table is not None, self.path
        return table


def _bytes(files: Sequence[StoredFile]) -> int:
    return sum(f.length for f in files)


def _column(table: DeltaTable, name: str) -> list[Any]:
    actions = pa.table(table.get_add_actions(flatten=True))
    return actions[name].to_pylist() if name in actions.column_names else []
