"""Rivermeet: joins of event streams and change logs, incrementally over Delta tables.

What stands in ``__all__`` is public. All else below this package is internal and changes without notice. The folders of
the repository are its sub-packages: links in a checkout, folders in a wheel (docs/decisions/one-package.md).
"""

from rivermeet.assets.project import Project
from rivermeet.pipelines import (
    JSON,
    Avro,
    Debezium,
    DeclarationError,
    DeltaTable,
    Expr,
    Files,
    JoinWindow,
    Kafka,
    Number,
    Pipeline,
    Postgres,
    Protobuf,
    Raw,
    Shadow,
    SlidingWindows,
    Source,
    Text,
    TimeWindows,
    average,
    count,
    expr,
    maximum,
    minimum,
    total,
)
from rivermeet.pipelines.errors import RivermeetError

__all__ = [
    "JSON",
    "Avro",
    "Debezium",
    "DeclarationError",
    "DeltaTable",
    "Expr",
    "Files",
    "JoinWindow",
    "Kafka",
    "Number",
    "Pipeline",
    "Postgres",
    "Project",
    "Protobuf",
    "Raw",
    "RivermeetError",
    "Shadow",
    "SlidingWindows",
    "Source",
    "Text",
    "TimeWindows",
    "average",
    "count",
    "expr",
    "maximum",
    "minimum",
    "total",
]
