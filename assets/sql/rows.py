"""What a node has now, for a notebook: Arrow, and what others make of it.

    project.table("shop.settled").to_pandas()
    polars.DataFrame(project.table("shop.settled"))      by Arrow's own interface, as of any library that has it
    project.table("shop.settled").to_duckdb().filter("paid IS NULL")

Held by ``tests/assets/sql/test_rows.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyRelation

from rivermeet.assets.sql.query import TABLES, QueryError

if TYPE_CHECKING:
    import pandas as pd

_WORD = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True)
class NodeRows:
    """Rows of one node as of the newest commit, folded table and tail together."""

    arrow: pa.Table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as Arrow's stream, which polars, pandas, DuckDB and others take."""
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self.arrow.num_rows

    def to_arrow(self) -> pa.Table:
        """The rows as Arrow has them."""
        return self.arrow

    def to_pandas(self) -> pd.DataFrame:
        """The rows as pandas has them."""
        return self.arrow.to_pandas()

    def to_duckdb(self) -> DuckDBPyRelation:
        """The rows as a relation of DuckDB."""
        return duckdb.from_arrow(self.arrow)

    def to_polars(self) -> Any:
        """The rows as polars has them; ImportError where polars is not installed."""
        import polars as pl  # pyright: ignore[reportMissingImports]

        return pl.from_arrow(self.arrow)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.arrow.to_pandas()._repr_html_()  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]


def select_all(name: str) -> str:
    """The query for all rows of a node, the newest first, or of one of its tables."""
    parts = name.split(".")
    if len(parts) not in (2, 3) or not all(_WORD.fullmatch(part) for part in parts):
        raise QueryError(f"{name!r} is no name: write PIPELINE.NODE, or one of {', '.join(TABLES)} behind it")
    order = " ORDER BY _timestamp DESC, _partition, _offset DESC" if len(parts) == 2 else ""
    return f"SELECT * FROM {'.'.join(parts)}{order}"
