"""Rows of a query as a command prints them: a table for the terminal, CSV, lines of JSON, or a Parquet file.

table      all cells as text, null as null, numbers to the right
csv        a header; null is empty, and what is nested is JSON
json       a row a line, NaN and infinities as text
parquet    a file, as Arrow has the types
"""

from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from rivermeet.assets.cli.terminal import echo, standard_json
from rivermeet.infra.printable import printable
from rivermeet.pipelines.plural import pluralize


def table(header: list[str], lines: list[list[Any]]) -> str:
    """Columns of text, aligned; numbers to the right."""
    texts = [header, *([_show(cell) for cell in line] for line in lines)]
    widths = [max(len(line[i]) for line in texts) for i in range(len(header))]
    numeric = [all(isinstance(line[i], int | None) for line in lines) for i in range(len(header))]

    def row(cells: list[str]) -> str:
        pairs = zip(cells, widths, numeric, strict=True)
        return "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in pairs).rstrip()

    return "\n".join([row(header), row(["-" * w for w in widths]), *map(row, texts[1:])])


def _show(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else printable(str(cell))


def print_table(found: pa.Table, limit: int, more: str) -> None:
    """Print so many rows as aligned columns.

    Parameters
    ----------
    more
        What to do for the rows that are left out.
    """
    lines = [
        ["null" if cell is None else cell for cell in row]
        for row in zip(*(c.to_pylist() for c in found.slice(0, limit).columns), strict=True)
    ]
    echo(table(found.column_names, [list(line) for line in lines]))
    if found.num_rows > limit:
        echo(f"{pluralize(found.num_rows - limit, 'more row')}: {more}")


def write(found: pa.Table, as_: str, output: Path | None) -> None:
    """Print rows, or write them to a file; ``json`` has each row as one column of JSON."""
    if as_ == "parquet":
        import pyarrow.parquet as pq

        assert output is not None, "a Parquet file has a name"
        pq.write_table(found, output)
        return
    text = io.StringIO()
    if as_ == "csv":
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(found.column_names)
        for row in zip(*(column.to_pylist() for column in found.columns), strict=True):
            writer.writerow([_text(cell) for cell in row])
    else:
        text.writelines(f"{standard_json(row)}\n" for row in found.column(0).to_pylist())
    if output is not None:
        output.write_text(text.getvalue(), "utf-8")
    elif text.getvalue():
        echo(text.getvalue().removesuffix("\n"))


def _text(cell: Any) -> Any:
    if isinstance(cell, dict | list | tuple):
        return json.dumps(cell, ensure_ascii=False, default=str)
    if isinstance(cell, datetime | date):
        return cell.isoformat()
    return cell.hex() if isinstance(cell, bytes) else cell
