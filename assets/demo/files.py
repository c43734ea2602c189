"""Files of a feed: written once, whole or not at all, and always with the same bytes."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from pathlib import Path


def write_file(path: Path, content: bytes) -> bool:
    """Write a file, compressed if its name ends in ``.gz`` or ``.zip``, unless it is there; whether it was written.

    A file that is there is left alone, for a source remembers length and modification time of what it has consumed.
    """
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # Sources read patterns such as *.csv; a name that starts with a dot and ends otherwise matches none.
    half_written = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        half_written.write_bytes(_pack(path, content))
        half_written.replace(path)
    finally:
        half_written.unlink(missing_ok=True)
    return True


def unpack(path: Path) -> bytes:
    """The content of a file that may be compressed, as its name says; of an archive its first member."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(archive.namelist()[0])
    return content


def _pack(path: Path, content: bytes) -> bytes:
    if path.suffix == ".gz":
        return gzip.compress(content, compresslevel=6, mtime=0)
    if path.suffix == ".zip":
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            # A fixed date, for the bytes must not depend on the day of the run.
            entry = zipfile.ZipInfo(path.stem, date_time=(2013, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
        return packed.getvalue()
    return content
