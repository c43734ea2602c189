"""A Delta table at a version, for a reader of Parquet: files, columns, and deleted rows.

    version 7   part-a.parquet   rows 0 to 999, without 17 and 512, which a deletion vector removes
                part-b.parquet   rows 0 to 49

A file may lack columns that were added later, or have a narrower type; the schema is that of the version. In the query
for DuckDB columns that a file lacks are null, and narrower ones are widened: an empty relation with the table's types
comes first, and the files follow by name. Without it DuckDB uses the columns of the first file, and drops additional
columns of later files. Held by ``tests/infra/delta/test_scan.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from rivermeet.infra.delta.lines import Chosen, open_table
from rivermeet.infra.delta.location import is_local
from rivermeet.infra.delta.plain_files import schema_of
from rivermeet.pipelines.errors import RivermeetError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


MAPPING = "delta.columnMapping.mode"


class UnreadableTableError(RivermeetError):
    """A table whose rows cannot be determined from its files alone."""

    remedy = "Nothing: the table is read by Spark instead."


@dataclass(frozen=True)
class Scan:
    """Files of one table at one version.

    Attributes
    ----------
    root
        The table's folder or URL.
    files
        Paths below it.
    schema
        Columns of the version; with column mapping, each field's metadata has its name in the files.
    deleted
        File to the positions of its deleted rows, from 0.
    mapped
        Whether columns have different names in the files.
    bytes
        Total size of the files.
    """

    root: str
    files: Sequence[str]
    schema: StructType
    deleted: Mapping[str, pa.Array] = field(default_factory=dict)
    mapped: bool = False
    bytes: int = 0

    @property
    def paths(self) -> Sequence[str]:
        """The files, with complete paths."""
        return [f"{self.root}/{file}" for file in self.files]


def scan(path: str, version: int | None = None, chosen: Chosen = lambda files: files) -> Scan | None:
    """The ``chosen`` files of the table at ``path`` as of ``version`` (the newest); None if there is no table.

    Raises
    ------
    UnreadableTableError
        If the table is partitioned, or has a feature that delta-rs does not know.
    """
    table = open_table(path, version)
    if table is None:
        return None
    about = table.metadata()
    if about.partition_columns:
        raise UnreadableTableError(
            f"{path} is partitioned by {', '.join(about.partition_columns)}: Spark reads it", table=path
        )
    try:
        vectors = [pa.record_batch(batch) for batch in table.deletion_vectors()]
    except DeltaError as error:
        raise UnreadableTableError(f"{path} has a feature that only Spark reads: {error}", table=path) from error
    gone = {
        unquote(file.rsplit("/", 1)[-1]): pc.call_function(
            "indices_nonzero", [pc.call_function("invert", [mask.values])]
        )
        for batch in vectors
        for file, mask in zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True)
    }
    files = chosen(pa.table(table.get_add_actions(flatten=True)))
    names = [unquote(name) for name in files["path"].to_pylist()]
    return Scan(
        path.rstrip("/"),
        names,
        schema_of(table),
        {name: gone[base] for name in names if (base := name.rsplit("/", 1)[-1]) in gone},
        mapped=about.configuration.get(MAPPING, "none") != "none",
        bytes=sum(files["size_bytes"].to_pylist()),
    )


_TYPES = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}
_PHYSICAL = "delta.columnMapping.physicalName"


def quote_name(name: str) -> str:
    """A name, quoted for DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'


def rows_of(scan: Scan, connection: DuckDBPyConnection) -> str:
    """The query for a scan's rows, in the columns of its schema.

    Raises
    ------
    UnreadableTableError
        If the table has a column of a type that DuckDB cannot represent exactly.
    """
    name = _in_file if scan.mapped else _own
    empty, shown = [], []
    for of in scan.schema.fields:
        column = quote_name(name(of))
        empty.append(f"CAST(NULL AS {type_of(of.dataType, name)}) AS {column}")
        shown.append(f"{_logical(column, of.dataType) if scan.mapped else column} AS {quote_name(of.name)}")
    parts = [f"SELECT {', '.join(empty)} WHERE false", *_files(scan, connection)]
    return f"SELECT {', '.join(shown)} FROM ({' UNION ALL BY NAME '.join(parts)})"


def register_rows(rows: pa.Table, connection: DuckDBPyConnection) -> str:
    """Register Arrow rows with a connection, and return the name for queries."""
    name = f"given_{uuid4().hex}"
    connection.register(name, rows)
    return name


def _files(scan: Scan, connection: DuckDBPyConnection) -> list[str]:
    if not scan.files:
        return []
    if not is_local(scan.root):
        from rivermeet.infra.delta.store_files import let_read

        let_read(connection, scan.root)
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in scan.paths)
    # In a home below a folder like epoch=0, the folder's number would replace the column of the files.
    options = f"[{listed}], union_by_name = true, hive_partitioning = false"
    if not scan.deleted:
        return [f"SELECT * FROM read_parquet({options})"]
    gone = [pa.table({"file": pa.array([f] * len(at), pa.string()), "row": at}) for f, at in scan.deleted.items()]
    return [
        "SELECT p.* EXCLUDE (filename, file_row_number) FROM "
        f"read_parquet({options}, filename = true, file_row_number = true) p ANTI JOIN "
        f"{register_rows(pa.concat_tables(gone), connection)} g "
        "ON ends_with(p.filename, g.file) AND g.row = p.file_row_number"
    ]


def type_of(kind: DataType, name: Callable[[StructField], str] = lambda field: field.name) -> str:
    """The DuckDB type of the same values.

    Parameters
    ----------
    name
        Returns the name of a struct's field.

    Raises
    ------
    UnreadableTableError
        If none represents them exactly.
    """
    if isinstance(kind, StructType):
        return f"STRUCT({', '.join(f'{quote_name(name(f))} {type_of(f.dataType, name)}' for f in kind.fields)})"
    if isinstance(kind, ArrayType):
        return f"{type_of(kind.elementType, name)}[]"
    if isinstance(kind, MapType):
        return f"MAP({type_of(kind.keyType, name)}, {type_of(kind.valueType, name)})"
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    found = _TYPES.get(kind.typeName())
    # A string with a collation has a different type name.
    if found is None or "collate" in kind.simpleString():
        raise UnreadableTableError(f"values of type {kind.simpleString()} are read by Spark alone")
    return found


def _in_file(field: StructField) -> str:
    return field.metadata[_PHYSICAL]


def _own(field: StructField) -> str:
    return field.name


def _logical(value: str, kind: DataType) -> str:
    """A value of a file with column mapping, with the field names of the table."""
    if isinstance(kind, StructType):
        fields = (
            f"{quote_name(f.name)} := {_logical(f'{value}.{quote_name(_in_file(f))}', f.dataType)}" for f in kind.fields
        )
        return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(fields)}) END"
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        return f"list_transform({value}, lambda e: {_logical('e', kind.elementType)})"
    return value
