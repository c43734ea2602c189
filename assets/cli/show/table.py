"""Columns of text for the terminal."""

from __future__ import annotations

from typing import Any

from rivermeet.infra.printable import printable


def table(header: list[str], lines: list[list[Any]]) -> str:
    """Columns of text, aligned; numbers to the right."""
    texts = [header, *([_text(cell) for cell in line] for line in lines)]
    widths = [max(len(line[i]) for line in texts) for i in range(len(header))]
    numeric = [all(isinstance(line[i], int | None) for line in lines) for i in range(len(header))]

    def row(cells: list[str]) -> str:
        pairs = zip(cells, widths, numeric, strict=True)
        return "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in pairs).rstrip()

    return "\n".join([row(header), row(["-" * w for w in widths]), *map(row, texts[1:])])


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else printable(str(cell))
