"""Files of a store for DuckDB, read by the client that reads the store's tables, like local files.

DuckDB's own client of stores is an extension that has to be downloaded. Through fsspec its Parquet reader requests only
the parts of a file that a query needs: footers, columns, and row groups that may match. Held by
``tests/infra/delta/test_on_s3.py``.
"""

from __future__ import annotations

from datetime import datetime
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from threading import Lock, local
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fsspec import AbstractFileSystem

from rivermeet.infra.delta.location import files_below

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow import NativeFile
    from pyarrow.fs import FileInfo


def let_read(connection: DuckDBPyConnection, url: str) -> None:
    """Enable queries of a connection to read the files of a URL's store."""
    scheme = urlsplit(url).scheme
    if not connection.filesystem_is_registered(scheme):
        connection.register_filesystem(_Store(scheme))


class _Store(AbstractFileSystem):
    """All URLs of one scheme; implements only the operations that DuckDB calls."""

    cachable = False

    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.protocol = scheme
        # DuckDB opens a file three times per query, and requests its metadata each time; files of a store do not
        # change.
        self._opened: dict[str, _File] = {}
        self._known: dict[str, FileInfo] = {}

    def open(self, path: str, mode: str = "rb", **_: Any) -> _File:
        if path not in self._opened:
            place, name = _split(path)
            self._opened[path] = _File(path, files_below(place).open_input_file(name))
        return self._opened[path]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self._about(path).size, "type": "file"}

    def modified(self, path: str) -> datetime:
        return self._about(path).mtime

    def glob(self, path: str, **_: Any) -> list[str]:
        # Names come from a log: characters that look like a pattern are literal.
        return [path]

    def _about(self, path: str) -> FileInfo:
        if path not in self._known:
            place, name = _split(path)
            self._known[path] = files_below(place).get_file_info(name)
        return self._known[path]


class _File(RawIOBase):
    """A file that several threads read: each has its own position, and one reads at a time.

    It stays open as long as the connection.
    """

    def __init__(self, name: str, file: NativeFile) -> None:
        super().__init__()
        self.name, self._file, self._size = name, file, file.size()
        self._reading, self._here = Lock(), local()

    @property
    def _at(self) -> int:
        return getattr(self._here, "at", 0)

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._here.at = {SEEK_SET: 0, SEEK_CUR: self._at, SEEK_END: self._size}[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        # The file of delta-rs refuses a second concurrent reader.
        with self._reading:
            found = self._file.read_at(self._size - self._at if size < 0 else size, self._at)
        self._here.at = self._at + len(found)
        return found

    def close(self) -> None:
        pass


def _split(url: str) -> tuple[str, str]:
    """The bucket or equivalent, and a name in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", url.removeprefix(f"{parts.scheme}://{parts.netloc}/")
