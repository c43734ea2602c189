"""A table's folder: its files, and the removal of log entries that no reader needs.

A version is a checkpoint and the commits after it. Entries below the newest checkpoint that is not past the oldest
needed version are never read:

    checkpoints 10, 20, 30; oldest needed version 25     commits and checkpoints below 20 are removed
    no checkpoint up to 25                               all stay

Delta's own cleanup considers only age. It would remove the commit with a table's newest note if there was no epoch for
the table's retention, and the next run would fold the whole changelog on top of the table. So maintenance disables it
(`KEPT`). Source: the Delta protocol, "Metadata Cleanup". Held by ``tests/infra/delta/test_maintenance.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyarrow.fs import FileSelector, FileType

from rivermeet.infra.delta.location import files_below

LOG = "_delta_log"
KEPT = {"delta.enableExpiredLogCleanup": "false"}
"""Properties of a table whose log is only cut by `cut_log`."""
# Hadoop keeps a checksum beside each file of a local disk: `.NAME.crc`.
_OF_A_VERSION = re.compile(rf"{LOG}/\.?(\d{{20}})\..+")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint\.parquet")


@dataclass(frozen=True)
class StoredFile:
    """A file below a table's folder: its relative path, its bytes, and its time of modification."""

    path: str
    length: int
    written: datetime

    @property
    def is_data(self) -> bool:
        """Whether it is a data file, and neither part of the log nor a checksum."""
        return self.path.endswith(".parquet") and not self.path.startswith(LOG)


def list_files(path: str) -> list[StoredFile]:
    """All files below the table's folder, including those that no version names."""
    found = files_below(path).get_file_info(FileSelector("", recursive=True))
    return [StoredFile(f.path, f.size, f.mtime) for f in found if f.type == FileType.File]


def cut_log(path: str, files: Sequence[StoredFile], oldest: int) -> int:
    """Remove entries that only versions below ``oldest`` need; return the number of files."""
    checkpoints = [int(m[1]) for f in files if (m := _CHECKPOINT.fullmatch(f.path)) and int(m[1]) <= oldest]
    if not checkpoints:
        return 0
    # In ascending order: after a kill half-way, the log has no gap.
    gone = sorted((int(m[1]), f.path) for f in files if (m := _OF_A_VERSION.fullmatch(f.path)))
    gone = [(version, name) for version, name in gone if version < max(checkpoints)]
    for _, name in gone:
        files_below(path).delete_file(name)
    return len(gone)
