"""Columns as a Protobuf message, from the Arrow schema of a changelog.

| Spark | Protobuf |
|---|---|
| BOOLEAN; TINYINT to INT; BIGINT; FLOAT; DOUBLE; STRING; BINARY | bool; int32; int64; float; double; string; bytes |
| TIMESTAMP | google.protobuf.Timestamp |
| DATE, TIMESTAMP_NTZ, DECIMAL | string: the text that Spark casts |
| ARRAY of these; STRUCT | repeated; a message in the message |

Fields are numbered in the order of the columns, so a column that is added at the end is compatible. Each is
``optional``: an absent field is null, and 0 is not. Held by ``tests/infra/kafka/test_protobuf_types.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as types

from rivermeet.infra.kafka.avro_types import NAME, TypeWithoutFormError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import Message

_PLAIN = (
    (types.is_boolean, "bool"),
    (lambda t: types.is_integer(t) and t.bit_width < 64, "int32"),
    (types.is_int64, "int64"),
    (types.is_float32, "float"),
    (types.is_float64, "double"),
    (lambda t: types.is_string(t) or types.is_large_string(t), "string"),
    (lambda t: types.is_binary(t) or types.is_large_binary(t), "bytes"),
    (lambda t: types.is_date32(t) or types.is_decimal(t) or (types.is_timestamp(t) and not t.tz), "string"),
)
TIMESTAMP = "google.protobuf.Timestamp"


def protobuf_file(message: str, columns: Iterable[pa.Field]) -> FileDescriptorProto:
    """The file that declares the message with this full name, such as ``shop.Trip``.

    Raises
    ------
    TypeWithoutFormError
        If Protobuf cannot represent a name or a type.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    package, _, name = message.rpartition(".")
    file = FileDescriptorProto(name=f"{message}.proto", package=package, syntax="proto3")
    _declare(file.message_type.add(name=name), message, columns)
    if _has_timestamp(file.message_type[0]):
        file.dependency.append("google/protobuf/timestamp.proto")
    return file


def _declare(made: DescriptorProto, full: str, columns: Iterable[pa.Field]) -> None:
    for number, column in enumerate(columns, 1):
        if not NAME.fullmatch(column.name):
            raise TypeWithoutFormError(f"column {column.name!r} is no name in Protobuf (letters, digits and _)")
        repeated = types.is_list(column.type) or types.is_large_list(column.type)
        kind = column.type.value_type if repeated else column.type
        field = made.field.add(name=column.name, number=number, label=3 if repeated else 1)
        plain = next((found for fits, found in _PLAIN if fits(kind)), None)
        if plain is not None:
            field.type = field.Type.Value(f"TYPE_{plain.upper()}")
        elif types.is_timestamp(kind) or types.is_struct(kind):
            inner = f"{column.name.title().replace('_', '')}Value"
            field.type, field.type_name = field.TYPE_MESSAGE, f".{TIMESTAMP}"
            if types.is_struct(kind):
                field.type_name = f".{full}.{inner}"
                _declare(made.nested_type.add(name=inner), f"{full}.{inner}", kind)
        else:
            raise TypeWithoutFormError(f"column {column.name!r} is of type {kind}, which Protobuf has no form for")
        # A scalar has presence only as the only member of a oneof.
        if not repeated and field.type != field.TYPE_MESSAGE:
            field.proto3_optional, field.oneof_index = True, len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{column.name}")


def _has_timestamp(made: DescriptorProto) -> bool:
    return any(f.type_name == f".{TIMESTAMP}" for f in made.field) or any(map(_has_timestamp, made.nested_type))


def fill_message(message: Message, row: Mapping[str, Any]) -> Message:
    """The message with the values of a row; a null leaves its field absent."""
    for column, value in row.items():
        if value is None:
            continue
        if isinstance(value, list):
            _extend(message, column, value)
        elif isinstance(value, Mapping):
            # A nested message without any value is present, too.
            getattr(message, column).SetInParent()
            fill_message(getattr(message, column), value)
        elif isinstance(value, datetime) and value.tzinfo is not None:
            getattr(message, column).FromDatetime(value.astimezone(UTC))
        else:
            setattr(message, column, _text(value))
    return message


def _extend(message: Message, column: str, values: list[Any]) -> None:
    target = getattr(message, column)
    if None in values:
        raise TypeWithoutFormError(f"column {column!r} has an array with a null in it, which Protobuf has no form for")
    for value in values:
        if isinstance(value, Mapping):
            fill_message(target.add(), value)
        elif isinstance(value, datetime) and value.tzinfo is not None:
            target.add().FromDatetime(value.astimezone(UTC))
        else:
            target.append(_text(value))


def _text(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
