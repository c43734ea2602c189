"""A Delta table at a version, for a reader of Parquet: files, columns, and deleted rows.

    version 7   part-a.parquet   rows 0 to 999, without 17 and 512, which a deletion vector removes
                part-b.parquet   rows 0 to 49

A file may lack columns that were added later, or have a narrower type; the schema is that of the version. Held by
``tests/infra/delta/test_scan.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from pyspark.sql.types import StructType

from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.plain_files import schema_of
from rivermeet.pipelines.errors import RivermeetError

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


def scan(
    path: str, version: int | None = None, chosen: Callable[[pa.Table], pa.Table] = lambda files: files
) -> Scan | None:
    """The table at ``path`` as of ``version``, by default the newest; None if there is no table.

    Parameters
    ----------
    chosen
        Leaves those that are wanted of the files, one a row: ``path``, and ``min.COLUMN`` and ``max.COLUMN`` where the
        table has statistics of them.

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
