"""Lands rows of a table of PostgreSQL (``infra/sources/landing_folder.py``).

Rows of COPY become columns of text a chunk at a time, without Python per row:

| in the table | as CSV | c0 | c1 |
|---|---|---|---|
| 1, null | ``1,`` | 1 | null |
| 2, an empty text | ``2,""`` | 2 | an empty text |
| 3, a text with ``"`` and the end of a line | ``3,"a""`` and ``b"`` | 3 | as in the table |
| null, of a table of one column | an empty line | null | |

Values are the texts that the log has of them, too. Held by ``tests/infra/sources/postgres/test_copied.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyarrow import csv

from rivermeet.infra.sources.landing_folder import in_chunks

Line = bytes | bytearray | memoryview
ROWS, BYTES = 50_000, 32 << 20
"""Rows of a chunk, and bytes of their values."""
_PLACE = (
    ("file_rank", pa.int32()),
    ("block", pa.int64()),
    ("row", pa.int64()),
    ("op", pa.string()),
    ("lsn", pa.int64()),
    ("timestamp", pa.int64()),
    ("xid", pa.int64()),
    ("unchanged", pa.list_(pa.int32())),
    ("earlier_key", pa.list_(pa.string())),
    ("branch", pa.int32()),
)


class Landed(NamedTuple):
    """A row with its place in the order of the epoch, and the text of each declared column.

    ``unchanged`` are the columns, by number, that the log omits. Their values are those of the row that had
    ``earlier_key`` before (None: the row's own key); later rows under that key are another ``branch``.
    """

    file_rank: int
    block: int
    row: int
    op: str
    lsn: int
    timestamp: int
    xid: int
    unchanged: Sequence[int] | None
    earlier_key: Sequence[str | None] | None
    branch: int
    texts: Sequence[str | None]


def landing_schema(width: int) -> pa.Schema:
    """Columns of landed rows of a table with that many declared columns."""
    return pa.schema([*_PLACE, *((f"c{at}", pa.string()) for at in range(width))])


def change_tables(rows: Iterable[Landed], schema: pa.Schema) -> Iterator[pa.Table]:
    """Rows of the log, to be landed in that schema."""
    for chunk in in_chunks(rows, ROWS, BYTES, _size):
        place = list(zip(*chunk, strict=True))
        texts = list(zip(*place.pop(), strict=True))
        yield pa.table([pa.array(c, field.type) for c, field in zip([*place, *texts], schema, strict=True)], schema)


def snapshot_tables(lines: Iterable[Line], schema: pa.Schema, lsn: int, timestamp: int) -> Iterator[pa.Table]:
    """Rows of a table's snapshot at a position, given as CSV, to be landed in that schema."""
    each, before = Landed(0, 0, 0, "r", lsn, timestamp, 0, None, None, 0, ()), 0
    for texts in read_copy(lines, len(schema) - len(_PLACE), ROWS, BYTES):
        rows = texts.num_rows
        place = {
            name: pa.repeat(pa.scalar(value, kind), rows) for (name, kind), value in zip(_PLACE, each[:-1], strict=True)
        }
        place["row"] = pa.array(range(before, before + rows), pa.int64())
        yield pa.table([*place.values(), *texts.columns], schema)
        before += rows


def _size(row: Landed) -> int:
    return sum(len(text) for text in row.texts if text)


def read_copy(lines: Iterable[Line], width: int, most: int, most_bytes: int) -> Iterator[pa.Table]:
    """Tables of at most that many rows or bytes, with ``width`` columns of text; each line has its end."""
    names = [f"c{at}" for at in range(width)]
    parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    for chunk in in_chunks(lines, most, most_bytes, len):
        data = b"".join(chunk)
        # One block: Arrow refuses a row that spans two.
        read = csv.ReadOptions(column_names=names, block_size=len(data) + 1)
        yield csv.read_csv(pa.BufferReader(data), read, parse, convert)
