"""Delta tables that a test writes, by delta-rs and by Spark, and the nodes that read them by the real protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.sources.delta.ingest import DeltaStep
from rivermeet.pipelines import Node
from tests.infra.sources.place import Place

FED = {"delta.enableChangeDataFeed": "true"}
ROWS = pa.schema([("id", pa.string()), ("n", pa.int64())])
Row = tuple[Any, ...]


@dataclass
class Shed(Place):
    """One test's tables, below ``data`` of its world."""

    def path(self, table: str = "orders") -> str:
        return str(self.world.root / "data" / table)

    def table(self, table: str = "orders") -> DeltaTable:
        return DeltaTable(self.path(table))

    def put(self, *rows: Row, table: str = "orders", fed: bool = False, mode: Any = "append", **options: Any) -> None:
        """Write rows of ``id`` and ``n`` by delta-rs."""
        given = pa.table({"id": [row[0] for row in rows], "n": [row[1] for row in rows]}, ROWS)
        properties = FED if fed else None
        write_deltalake(self.path(table), given, mode=mode, configuration=properties, **options)

    def sql(self, text: str, table: str = "orders") -> None:
        """Run SQL by Spark; ``{t}`` is the table."""
        self.world.spark.sql(text.format(t=f"delta.`{self.path(table)}`")).collect()

    def vacuum(self, table: str = "orders") -> None:
        """Remove every file that the newest version does not need, its change data included."""
        self.table(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)

    def source_step(self, node: Node, context: EpochContext) -> DeltaStep:
        return DeltaStep(node, context.paths(node), context.log, str(self.world.root / "data"))

    def records(self, node: Node) -> list[tuple[Any, ...]]:
        """Of each record partition, key, value (None: a tombstone) and timestamp, in order of partition and offset."""
        rows = sorted(self.world.rows(node), key=lambda row: (row["partition"], row["offset"]))
        return [
            (
                row["partition"],
                *row["key"].values(),
                None if row["value"] is None else tuple(row["value"].values()),
                row["timestamp"],
            )
            for row in rows
        ]

    def said(self, node: Node) -> list[tuple[Any, ...]]:
        """Of each record key and value, in order; a value of one column is that."""
        return [
            (*key, value[0] if value is not None and len(value) == 1 else value)
            for _, *key, value, _ in self.records(node)
        ]

    def there(self, table: str = "orders") -> list[Row]:
        """The source's rows, in order."""
        rows = self.world.spark.read.format("delta").load(self.path(table)).collect()
        return sorted((tuple(row) for row in rows), key=repr)
