"""A table's folder: how much is in it, and its log cut where no reader needs it any longer.

A version is a checkpoint and the commits after it. What lies below the newest checkpoint that is not past the oldest
version still needed, nobody reads:

    checkpoints 10, 20, 30; oldest needed version 25     commits and checkpoints below 20 go
    no checkpoint up to 25                               all stay

Delta's own cleanup goes by age alone. It would take the commit with a table's newest note where no epoch came for the
table's retention, and the next run would fold the whole changelog on top of what is there. So maintenance switches it
off (`KEPT`). Source: the Delta protocol, "Metadata Cleanup". Held by ``tests/infra/delta/test_maintenance.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileSystem, FileType, PyFileSystem

LOG = "_delta_log"
KEPT = {"delta.enableExpiredLogCleanup": "false"}
"""Properties of a table whose log is cut by `cut_log` alone."""
# Hadoop keeps a checksum beside each file of a local disk: `.NAME.crc`.
_OF_A_VERSION = re.compile(rf"{LOG}/\.?(\d{{20}})\..+")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint\.parquet")


@dataclass(frozen=True)
class StoredFile:
    """A file below a table's folder: its path there, its bytes, and when it was written."""

    path: str
    length: int
    written: datetime

    @property
    def is_data(self) -> bool:
        """Whether it holds rows, and is neither the log's nor a checksum."""
        return self.path.endswith(".parquet") and not self.path.startswith(LOG)


def stored_files(path: str) -> list[StoredFile]:
    """All files below the table's folder, also those that no version names."""
    found = _storage(path).get_file_info(FileSelector("", recursive=True))
    return [StoredFile(f.path, f.size, f.mtime) for f in found if f.type == FileType.File]


def cut_log(path: str, files: Sequence[StoredFile], oldest: int) -> int:
    """Remove what only versions below ``oldest`` need; how many files that were."""
    checkpoints = [int(m[1]) for f in files if (m := _CHECKPOINT.fullmatch(f.path)) and int(m[1]) <= oldest]
    if not checkpoints:
        return 0
    # Upwards: killed half-way, the log is one without a gap still.
    gone = sorted((int(m[1]), f.path) for f in files if (m := _OF_A_VERSION.fullmatch(f.path)))
    gone = [(version, name) for version, name in gone if version < max(checkpoints)]
    storage = _storage(path)
    for _, name in gone:
        storage.delete_file(name)
    return len(gone)


def _storage(path: str) -> FileSystem:
    """The table's folder as Delta's own reader reaches it, whatever URL it has."""
    return PyFileSystem(DeltaStorageHandler(path))
