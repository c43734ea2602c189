"""Declarations: what exists, as plain values. No Dagster, no Spark, no effects.

A project adds a pipeline with a file that sets ``PIPELINE`` (``files.py``).
"""

from __future__ import annotations

from rivermeet.pipelines.check import Check
from rivermeet.pipelines.errors import DeclarationError
from rivermeet.pipelines.expressions import Expr, expr
from rivermeet.pipelines.files import BrokenFile, PipelineFileError
from rivermeet.pipelines.joins import (
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
from rivermeet.pipelines.nodes import GlobalTable, GlobalView, Node, Stream, Table, WindowedTable
from rivermeet.pipelines.operations import (
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
from rivermeet.pipelines.pipeline import Pipeline
from rivermeet.pipelines.reads.delta import DeltaTable
from rivermeet.pipelines.reads.kafka import JSON, Avro, Debezium, Kafka, Number, Protobuf, Raw, Text
from rivermeet.pipelines.reads.postgres import Postgres
from rivermeet.pipelines.shadow import Shadow
from rivermeet.pipelines.source import Files, Source
from rivermeet.pipelines.window import JoinWindow, SlidingWindows, TimeWindows, duration_ms

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
    "maximum",
    "minimum",
    "total",
]
