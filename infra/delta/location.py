"""Where a table lies: on a disk of this machine or behind a URL, and its files as Arrow reads them.

    /data/tables/shop/orders/changelog          this machine
    file:///data/tables/shop/orders/changelog   this machine
    s3://lake/river/shop/orders/changelog       a store: no folders, no renames, and what is put is whole

Spark and delta-rs take the same text (``infra/engine/conf.py``). Held by ``tests/infra/delta/test_on_s3.py``.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem


def is_local(path: str) -> bool:
    """Whether a location is on a disk of this machine."""
    return "://" not in path or urlsplit(path).scheme == "file"


def local(path: str) -> Path:
    """A location on a disk of this machine as a path."""
    return Path(unquote(urlsplit(path).path)) if "://" in path else Path(path)


def files_below(path: str) -> FileSystem:
    """The files below a location, named from there."""
    # Arrow's threads read ahead. Behind delta-rs' handler they call Python, and a process that ends meanwhile aborts
    # (tests/assets/cli/test_idle.py).
    return SubTreeFileSystem(str(local(path)), LocalFileSystem()) if is_local(path) else _behind(path)


def tag_of(path: str, name: str) -> str | None:
    """What distinguishes the object ``name`` below a URL from another of that name; None where it is not there.

    None also for stores that obstore does not know.
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
