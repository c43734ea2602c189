"""Converts CSV rows from COPY to columns of text, a chunk at a time, without Python per row.

| in the table | as CSV | c0 | c1 |
|---|---|---|---|
| 1, null | ``1,`` | 1 | null |
| 2, an empty text | ``2,""`` | 2 | an empty text |
| 3, a text with ``"`` and the end of a line | ``3,"a""`` and ``b"`` | 3 | as in the table |
| null, of a table of one column | an empty line | null | |

Values are the texts that the log has of them, too. Held by ``tests/infra/sources/postgres/test_copied.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyarrow import csv

from rivermeet.infra.sources.landing_folder import in_chunks

Line = bytes | bytearray | memoryview


def read_copy(lines: Iterable[Line], width: int, most: int, most_bytes: int) -> Iterator[pa.Table]:
    """Tables of at most that many rows or bytes, with columns ``c0``, ``c1``, … of text.

    Parameters
    ----------
    lines
        One row each, with the end of its line.
    width
        Number of columns.
    """
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
