"""Files of a feed: written once, whole or not at all, and always with the same bytes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def write_file(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bool:
    """Write rows unless the file is there; whether it was written.

    The name says how: ``.csv``, ``.csv.gz``, ``.csv.zip`` or ``.jsonl``. A file that is there is left alone, for a
    source remembers length and modification time of what it has consumed.
    """
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # Sources read patterns such as *.csv; a name that starts with a dot and ends otherwise matches none.
    half_written = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        half_written.write_bytes(_pack(path, _text(path, columns, rows).encode()))
        half_written.replace(path)
    finally:
        half_written.unlink(missing_ok=True)
    return True


def _text(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    if path.suffix == ".jsonl":
        return "".join(json.dumps({c: row[c] for c in columns if c in row}) + "\n" for row in rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def unpack(path: Path) -> str:
    """The text of a file that may be compressed, as its name says; of an archive its first member."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(archive.namelist()[0])
    return content.decode()


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
