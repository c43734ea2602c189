"""The location of a table, on a local disk or at a URL, and its files as read by Arrow.

    /data/tables/shop/orders/changelog          this machine
    file:///data/tables/shop/orders/changelog   this machine
    s3://lake/river/shop/orders/changelog       a store: no folders, no renames, and puts are atomic

Spark and delta-rs accept the same text (``infra/engine/conf.py``). Held by ``tests/infra/delta/test_on_s3.py``.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem


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
