"""The location of a table, on a local disk or at a URL, and its files as read by Arrow.

    /data/tables/shop/orders/changelog          this machine
    file:///data/tables/shop/orders/changelog   this machine
    s3://lake/river/shop/orders/changelog       a store: no folders, no renames, and puts are atomic

Spark and delta-rs accept the same text (``infra/engine/conf.py``).

Entries of the log that no reader needs are removed. A version is a checkpoint and the commits after it. Entries below
the newest checkpoint that is not past the oldest needed version are never read:

    checkpoints 10, 20, 30; oldest needed version 25     commits and checkpoints below 20 are removed
    no checkpoint up to 25                               all stay

Delta's own cleanup considers only age. It would remove the commit with a table's newest note if there was no epoch for
the table's retention, and the next run would fold the whole changelog on top of the table. So maintenance disables it
(`KEPT`). Source: the Delta protocol, "Metadata Cleanup". Held by ``tests/infra/delta/test_on_s3.py`` and
``tests/infra/delta/test_maintenance.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, PyFileSystem, SubTreeFileSystem


def is_local(path: str) -> bool:
    """Whether a location is on a local disk."""
    return "://" not in path or urlsplit(path).scheme == "file"


def local(path: str) -> Path:
    """A location on a local disk as a path."""
    return Path(unquote(urlsplit(path).path)) if "://" in path else Path(path)


def files_below(path: str) -> FileSystem:
    """The files below a location, with names relative to it."""
    # Arrow's threads read ahead. With delta-rs' handler they call Python, and a process that ends meanwhile aborts
    # (tests/assets/cli/test_idle.py).
    return SubTreeFileSystem(str(local(path)), LocalFileSystem()) if is_local(path) else _behind(path)


def tag_of(path: str, name: str) -> str | None:
    """The tag of the object ``name`` below a URL; None if it does not exist.

    Also None for stores that obstore does not know.
    """
    try:
        from obstore import head
        from obstore.exceptions import BaseError
    except ImportError:
        return None
    try:
        store = _store(path)
        return None if store is None else head(store, name)["e_tag"]
    except (FileNotFoundError, BaseError):
        return None


@lru_cache(maxsize=128)
def _store(path: str) -> Any:
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    try:
        return from_url(path)
    except (BaseError, ValueError):
        return None


@lru_cache(maxsize=128)
def _behind(path: str) -> FileSystem:
    return PyFileSystem(DeltaStorageHandler(path))


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
