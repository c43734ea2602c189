"""A Delta table as a source: the rows that its commits append, or their changes.

    DeltaTable("shop/orders", changes="feed", schema={"id": "STRING", "n": "INT"})

    version   the table's commit             records, with key id
    3         insert (a, 1), (b, 2)          a: n 1; b: n 2                 delta_change insert
    4         update (a, 1) to (a, 5)        a: n 5                         delta_change update_postimage
    5         update (b, 2) to (c, 2)        b: a tombstone; c: n 2         delta_change update_preimage for b
    6         delete (a, 5)                  a: a tombstone                 delta_change delete
    7         OPTIMIZE                       none: no row has changed

With ``changes="append"`` each row that a version adds is a record, and a version that removes rows is refused. What is
read, and in which order, is in ``infra/sources/delta/``. Held by ``tests/pipelines/test_delta.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from rivermeet.pipelines.errors import OptionError
from rivermeet.pipelines.reads.reads import Reads, refuse_alike

TableChanges = Literal["append", "feed"]
FIELDS: Mapping[str, str] = {
    "delta_version": "BIGINT",
    "delta_timestamp": "BIGINT",
    "delta_change": "STRING",
    "delta_tombstone": "BOOLEAN",
}
"""Columns that each record of a table has besides the table's own; times in epoch millis, of the commit."""


@dataclass(frozen=True)
class DeltaTable(Reads):
    """A Delta table; each version is consumed once, in order.

    Attributes
    ----------
    path
        Its folder or URL; relative to the data folder (setting ``RIVERMEET_DATA``).
    changes
        ``"append"``: the rows that versions add; a version that removes any is refused. ``"feed"``: inserts, updates
        and deletes of its change data feed, from a snapshot on; the columns of the key must be unique in the table.
    schema
        Column name to Spark SQL type. The table may have more columns, and a struct of it more fields.
    order
        Columns that order the rows of one version. Default: rows that are added stay in the order of their files, by
        path; those of a feed are ordered by their content.
    """

    added: ClassVar[Mapping[str, str]] = FIELDS
    path: str
    changes: TableChanges = "append"
    schema: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.changes not in get_args(TableChanges):
            raise OptionError(f"changes {self.changes!r} is not one of {', '.join(get_args(TableChanges))}")
        own = self.value_columns
        if not self.path or not own:
            raise OptionError("a Delta table needs a path and a schema; give column names and Spark types")
        refuse_alike(own, f"the schema of table '{self.path}'")
        taken = {name.lower() for name in FIELDS}
        clash = next((name for name in own if name.lower() in taken), None)
        if clash is not None:
            raise OptionError(f"table '{self.path}' has a column {clash!r}, which the source adds itself; leave it out")
        unknown = next((name for name in self.order if name not in own), None)
        if unknown is not None:
            raise OptionError(f"order names {unknown!r}, which is no column of the schema; there are {', '.join(own)}")
        object.__setattr__(self, "schema", {**own, **FIELDS})

    @property
    def label(self) -> str:
        """The path."""
        return f"Delta table '{self.path}'"

    def options(self, options: Mapping[str, Any], is_table: bool) -> Mapping[str, Any]:
        """The commit's time by default, and deletes are tombstones."""
        if "duplicate_files" in options:
            raise OptionError("duplicate_files is of files; a table has none of its own")
        gone, tombstone = "delta_tombstone", options.get("tombstone")
        tombstone = gone if tombstone is None else f"{gone} OR ({tombstone})"
        return {"timestamp": "delta_timestamp", **options, "tombstone": tombstone}
