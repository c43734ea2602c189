"""A query over committed tables, in DuckDB's SQL.

    shop.settled                              what the node has now: a table's live rows, a stream's records
    shop.settled.changelog                    its records as they were committed; also table, late, dead_letter, …
    shop.settled.table AT (VERSION => 7)      the same at a version of its log
    quality                                   what checks have found

Names are looked for in the query as DuckDB parses it, so that only tables that it reads are opened. It changes nothing:
DuckDB writes down a parsed query of a SELECT alone.
For a notebook, what a node has now is Arrow, and what others make of it:

    project.table("shop.settled").to_pandas()
    polars.DataFrame(project.table("shop.settled"))      by Arrow's own interface, as of any library that has it
    project.table("shop.settled").to_duckdb().filter("paid IS NULL")

Held by ``tests/assets/sql``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from deltalake.exceptions import DeltaError
from duckdb import DuckDBPyConnection, DuckDBPyRelation
from pyarrow.fs import FileSelector, FileType

from rivermeet.assets.quality.relations.epoch import live_rows, records_between
from rivermeet.assets.quality.relations.parts import table_part
from rivermeet.expectations.judge.duck import add_hash, create_view, database
from rivermeet.expectations.results import Relation
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.location import files_below
from rivermeet.pipelines.errors import RivermeetError

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("changelog", "table", "late", "dead_letter", "rejected", "quarantine", "memory")
QUALITY = "quality"


class QueryError(RivermeetError):
    """A query that is none, or names what is not there."""

    remedy = "Correct the query; `rivermeet sql` without one lists what can be read."


@dataclass(frozen=True)
class CommittedState:
    """The tables of a home, or of a URL.

    Attributes
    ----------
    tables
        Folder or URL of all nodes' tables.
    quality
        Of the quality table.
    """

    tables: str
    quality: str

    def ask(self, query: str, memory: str, spill: Path, as_json: bool = False) -> pa.Table:
        """Rows of a query.

        Parameters
        ----------
        as_json
            Whether each row is one column, in JSON.
        memory
            What it may take, such as ``1g``; the rest is spilled into the folder ``spill``.

        Raises
        ------
        QueryError
            If the text is no query, or names a table that is not there.
        """
        with database(memory, spill) as connection:
            try:
                text = self._over_views(connection, query)
                if "xxhash64(" in query.lower():
                    _let_hash(connection, text)
                text = f"SELECT to_json(__row) FROM ({text}) AS __row" if as_json else text
                return connection.sql(text).to_arrow_table()
            except duckdb.Error as error:
                raise QueryError(str(error)) from None

    def names(self) -> list[str]:
        """What there is: ``PIPELINE.NODE.TABLE``."""
        found = []
        for pipeline, node in self._nodes():
            paths = NodeTables(self.tables, pipeline, node)
            found += [f"{pipeline}.{node}.{name}" for name in TABLES if open_table(getattr(paths, name)) is not None]
        return found + ([QUALITY] if open_table(self.quality) is not None else [])

    def _nodes(self) -> Iterator[tuple[str, str]]:
        below = files_below(self.tables)

        def folders(path: str) -> list[str]:
            found = below.get_file_info(FileSelector(path, allow_not_found=True))
            return sorted(one.path for one in found if one.type == FileType.Directory and one.base_name[0] not in "_.")

        for pipeline in folders(""):
            yield from ((Path(pipeline).name, Path(node).name) for node in folders(pipeline))

    def _over_views(self, connection: DuckDBPyConnection, query: str) -> str:
        """The query over views, which are made of the tables that it names."""
        ((text,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
        parsed = json.loads(text)
        if parsed["error"]:
            only = "only SELECT, FROM, DESCRIBE, SUMMARIZE and SHOW read: "
            raise QueryError(f"{only if parsed['error_type'] == 'not implemented' else ''}{parsed['error_message']}")
        if len(parsed["statements"]) != 1:
            raise QueryError("write one query, without a second one behind a semicolon")
        known: dict[str, str] = {}
        parts = [*_parts(parsed)]
        own = {named["key"] for part in parts for named in part.get("cte_map", {}).get("map", ())}
        for found in (part for part in parts if part.get("type") == "BASE_TABLE"):
            name, version = found["qualified_name"]["path"], found["at_clause"]
            if len(name) == 1 and (name[0] != QUALITY or name[0] in own):
                continue  # of the query's own
            key = json.dumps([name, version])
            if key not in known:
                known[key] = f"view_{len(known) + 1}"
                create_view(connection, known[key], self.relation(name, _version(version)))
            found["alias"] = found["alias"] or name[-1]
            found["qualified_name"]["path"], found["at_clause"] = [known[key]], None
        ((sql,),) = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(parsed)]).fetchall()
        return sql

    def relation(self, name: Sequence[str], version: int | None = None) -> Relation:
        """What a name stands for: ``(PIPELINE, NODE)``, with one of its tables behind it, or the quality table.

        Raises
        ------
        QueryError
            If it is not there.
        """
        if len(name) == 1:
            return self._table(name, self.quality, version)
        paths = NodeTables(self.tables, *name[:2])
        if len(name) == 3 and name[2] in TABLES:
            return self._table(name, getattr(paths, name[2]), version)
        if len(name) != 2:
            raise QueryError(
                f"{'.'.join(name)} is no table: write PIPELINE.NODE, or one of {', '.join(TABLES)} behind it"
            )
        if version is not None:
            raise QueryError(
                f"{'.'.join(name)} is made of several tables: give the version of one of them, as in "
                f"{'.'.join(name)}.changelog AT (VERSION => {version})"
            )
        return self._now(name, paths)

    def _table(self, name: Sequence[str], path: str, version: int | None) -> Relation:
        newest = open_table(path)
        if newest is None:
            raise self._explain_missing(name)
        try:
            table = newest if version is None else open_table(path, version)
        except (DeltaError, OverflowError):  # one that is not there yet, or not any more
            table = None
        if table is None:
            raise QueryError(f"{'.'.join(name)} has no version {version}: its newest is {newest.version()}")
        return Relation("SELECT * FROM {table}", {"table": table_part(path, ".".join(name), table.version())})

    def _now(self, name: Sequence[str], paths: NodeTables) -> Relation:
        """What a node has now, in the columns of a folded table."""
        committed = last_note(paths.changelog)
        if committed is None:
            raise self._explain_missing(name)
        ends, folded = committed[1].ends, last_note(paths.table)
        version, upto = (
            (None, {})
            if folded is None or folded[1].incarnation != committed[1].incarnation
            else (folded[0], folded[1].ends)
        )
        rows = records_between(paths, upto, ends)
        # A run that was killed before its first fold leaves a table's changelog alone.
        if open_table(paths.table) is not None or committed[1].declared.get("kind", "stream") != "stream":
            rows = live_rows(paths, version, upto, ends, rows)
        place = "timestamp AS _timestamp, partition AS _partition, offset AS _offset"
        return Relation(f"SELECT key.*, value.*, {place} FROM ({rows.sql})", rows.parts)

    def _explain_missing(self, name: Sequence[str]) -> QueryError:
        there = sorted({".".join(one.split(".")[:2]) for one in self.names()})
        return QueryError(
            f"{'.'.join(name)} is not there, or has committed nothing; there are: {', '.join(there) or 'none'}"
        )


def _let_hash(connection: DuckDBPyConnection, query: str) -> None:
    """Give the query the hash of a foreign key's rule: of the type of a value that it reads."""
    views = connection.execute(
        "SELECT table_name FROM duckdb_columns() WHERE column_name = 'value' AND table_name LIKE 'view_%'"
    ).fetchall()
    kinds = {str(kind): kind for (view,) in views for kind in connection.sql(f"SELECT value FROM {view}").types}
    for kind in kinds.values():
        add_hash(connection, kind)
        try:
            connection.execute(f"EXPLAIN {query}")
            return
        except duckdb.BinderException:
            connection.remove_function("xxhash64")


def _version(clause: Any) -> int | None:
    if clause is None:
        return None
    try:
        assert clause["unit"].upper() == "VERSION"
        return int(clause["expr"]["literal"]["text"])
    except (AssertionError, KeyError, ValueError):
        raise QueryError("a table is read AT (VERSION => n), n a version of its Delta log") from None


def _parts(parsed: Any) -> Iterator[dict[str, Any]]:
    if isinstance(parsed, dict):
        yield parsed
    for part in parsed.values() if isinstance(parsed, dict) else parsed if isinstance(parsed, list) else ():
        yield from _parts(part)


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
