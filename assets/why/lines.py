"""The lines of a file that a record may have been made of: those whose columns give its values.

    record   tail_number N1, built 1987, name null        key tailnum, value year, NULLIF(name, '')
    line 7   N1,1987,                                     it: columns that are taken over as they are agree
    line 9   N1,1988,                                     not it

Spark counts no lines of the files that it reads in parts. Columns that expressions make are not compared. Held by
``tests/assets/why/test_origins.py``.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import pyarrow.parquet as pq

from pipelines import Source

MOST = 1000
"""Lines that are looked for at most: a record is made of one."""


def lines_like(path: str, source: Source, row: Mapping[str, Any]) -> list[int]:
    """Numbers of the lines, from 1; none where the file cannot be read here.

    Parameters
    ----------
    row
        ``key``, ``value`` and ``timestamp`` (ms) of the record.
    """
    wanted = _taken_over(source, row)
    if "://" in path or not wanted:
        return []
    try:
        found = _FORMATS[source.files.format](path, source, wanted)
        return [number for number, _ in zip(found, range(MOST), strict=False)]
    except (OSError, EOFError, ValueError, csv.Error, zipfile.BadZipFile):
        return []


def _taken_over(source: Source, row: Mapping[str, Any]) -> dict[str, Any]:
    """File column to the record's value, of columns that are as they are in the file."""
    schema = {name.lower(): name for name in source.files.schema}
    found: dict[str, Any] = {}
    for part, declared in (("key", source.key), ("value", source.value)):
        for name, made in declared.items():
            column = schema.get(made.sql.strip("` ").lower())
            if column is not None and row[part] is not None and name in row[part]:
                found[column] = row[part][name]
    clock = schema.get(source.timestamp.strip("` ").lower())
    if clock is not None and source.files.schema[clock].upper() == "BIGINT":
        found[clock] = row["timestamp"]
    return found


def _csv(path: str, source: Source, wanted: Mapping[str, Any]) -> Iterator[int]:
    nulls = {"", source.files.null}
    with _opened(path) as file:
        lines = csv.reader(file, delimiter=source.files.delimiter)
        at = {name: place for place, name in enumerate(next(lines, []))}
        if not set(wanted) <= set(at):
            return
        # Compared in the order in which the fewest lines agree: keys come first.
        asked = [(at[name], value) for name, value in wanted.items()]
        start = lines.line_num
        for cells in lines:
            first, start = start + 1, lines.line_num
            if len(cells) == len(at) and all(_same(cells[place], value, nulls) for place, value in asked):
                yield first


def _same(text: str, value: Any, nulls: set[str | None]) -> bool:
    if value is None or text in nulls:
        return value is None and text in nulls
    if text == str(value):
        return True
    if isinstance(value, bool):
        return text.lower() in ("true", "1", "t") if value else text.lower() in ("false", "0", "f")
    if isinstance(value, int | float):
        try:
            return float(text) == value
        except ValueError:
            return False
    # Dates and times have many spellings: whoever spells them otherwise is not excluded by them.
    return not isinstance(value, str)


def _json(path: str, source: Source, wanted: Mapping[str, Any]) -> Iterator[int]:
    del source
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and all(_same_json(found.get(name), value) for name, value in wanted.items()):
                yield number


def _same_json(found: Any, value: Any) -> bool:
    if value is None or found is None:
        return value is found
    return found == value if isinstance(found, str) == isinstance(value, str) else _same(str(found), value, {None})


def _parquet(path: str, source: Source, wanted: Mapping[str, Any]) -> Iterator[int]:
    del source
    number = 0
    for batch in pq.ParquetFile(path, coerce_int96_timestamp_unit="us").iter_batches(columns=list(wanted)):
        for line in batch.to_pylist():
            number += 1
            if all(line[name] == value for name, value in wanted.items()):
                yield number


_FORMATS = {"csv": _csv, "json": _json, "parquet": _parquet}


@contextmanager
def _opened(path: str) -> Iterator[IO[str]]:
    """A file's text, of an archive its one member's."""
    if path.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(".csv")]
            if len(names) != 1:
                raise ValueError(f"{path} has {len(names)} members")
            with archive.open(names[0]) as member:
                yield io.TextIOWrapper(member, encoding="utf-8-sig", newline="")
        return
    opener = gzip.open if path.lower().endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        yield file  # pyright: ignore[reportReturnType]
