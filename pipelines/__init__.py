"""Declarations: what exists, as plain values. No Dagster, no Spark, no effects.

To add a pipeline, add one file here that sets ``PIPELINE``; `load_all` finds it (``files.py``).
"""

from __future__ import annotations

from pipelines.check import Check
from pipelines.errors import DeclarationError
from pipelines.expressions import Expr, expr
from pipelines.files import BrokenFile, PipelineFileError, load, load_all, loaded
from pipelines.joins import (
    ForeignKeyJoin,
    GlobalGlobalJoin,
    Join,
    OneToManyJoin,
    Operation,
    StreamGlobalJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
)
from pipelines.nodes import GlobalTable, GlobalView, Node, Stream, Table, WindowedTable
from pipelines.operations import (
    Aggregation,
    Filter,
    MapValues,
    Merge,
    SelectKey,
    TableAggregate,
    ToStream,
    ToTable,
    WindowedAggregate,
    average,
    count,
    maximum,
    minimum,
    total,
)
from pipelines.pipeline import Pipeline
from pipelines.reads.delta import DeltaTable
from pipelines.reads.kafka import JSON, Avro, Debezium, Kafka, Number, Protobuf, Raw, Text
from pipelines.reads.postgres import Postgres
from pipelines.shadow.declaration import Shadow
from pipelines.source import Files, Source
from pipelines.window import JoinWindow, SlidingWindows, TimeWindows, duration_ms

__all__ = [
    "JSON",
    "Aggregation",
    "Avro",
    "BrokenFile",
    "Check",
    "Debezium",
    "DeclarationError",
    "DeltaTable",
    "Expr",
    "Files",
    "Filter",
    "ForeignKeyJoin",
    "GlobalGlobalJoin",
    "GlobalTable",
    "GlobalView",
    "Join",
    "JoinWindow",
    "Kafka",
    "MapValues",
    "Merge",
    "Node",
    "Number",
    "OneToManyJoin",
    "Operation",
    "Pipeline",
    "PipelineFileError",
    "Postgres",
    "Protobuf",
    "Raw",
    "SelectKey",
    "Shadow",
    "SlidingWindows",
    "Source",
    "Stream",
    "StreamGlobalJoin",
    "StreamStreamJoin",
    "StreamTableJoin",
    "Table",
    "TableAggregate",
    "TableTableJoin",
    "Text",
    "TimeWindows",
    "ToStream",
    "ToTable",
    "WindowedAggregate",
    "WindowedTable",
    "average",
    "count",
    "duration_ms",
    "expr",
    "load",
    "load_all",
    "loaded",
    "maximum",
    "minimum",
    "total",
]
