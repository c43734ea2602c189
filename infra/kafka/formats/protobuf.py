"""Protobuf payloads: read as JSON text with the writer's descriptor, and written with one made from the columns.

| written | text |
|---|---|
| ``id: "a"`` of ``shop.Order`` | ``{"id": "a", "n": 0}``: a field without presence has its default |
| ``optional`` and absent | no such field: it is null |
| an int64, bytes ``ff``, a ``google.protobuf.Timestamp`` | ``"12"``, ``"/w=="``, ``"1970-01-01T00:00:00.001Z"`` |
| another message of the schema | none: a dead letter, because ``shop.Order`` is declared |
| a Timestamp of the year 10000, an Any of an unknown type | none: a dead letter, JSON cannot represent it |

A registry's payload names its message by indexes behind the schema's id: a count and so many numbers, or a lone 0 for
the first message.

| column | written as |
|---|---|
| BOOLEAN; TINYINT to INT; BIGINT; FLOAT; DOUBLE; STRING; BINARY | bool; int32; int64; float; double; string; bytes |
| TIMESTAMP | google.protobuf.Timestamp |
| DATE, TIMESTAMP_NTZ, DECIMAL | string: the text that Spark casts |
| ARRAY of these; STRUCT | repeated; a message in the message |

Fields are numbered in the order of the columns, so a column that is added at the end is compatible. Each is
``optional``: an absent field is null, and 0 is not. Held by ``tests/infra/sources/kafka/formats/test_formats.py`` and
``tests/infra/kafka/test_protobuf_types.py``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as types

from rivermeet.infra.kafka.formats.framing import NAME, Decode, Encode, UndecodableError, frame, unframe
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.kafka.refusals import TypeWithoutFormError
from rivermeet.pipelines import Protobuf

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import Message

_KNOWN = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
"""Google's own files, which any schema may import."""
_TIMESTAMP = ".google.protobuf.Timestamp"
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


def protobuf_decode(format: Protobuf, registry: Registry) -> Decode:
    """Create the decoder of payloads of this format."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.message import DecodeError

    if format.descriptor is not None:
        files = FileDescriptorSet.FromString(base64.b64decode(format.descriptor)).file
        own = _pool(list(files)).FindMessageTypeByName(format.message)
        return lambda payload: _text(payload, own)

    @cache
    def files_of(id: int) -> list[FileDescriptorProto] | str:
        described = registry.schema(id, "serialized")
        if described is None:
            return f"has schema {id}, which the registry does not have"
        if described.get("schemaType") != "PROTOBUF":
            return f"has schema {id}, which is not of Protobuf"
        try:
            parts = {**registry.read_references(described, "serialized"), "": described}
            files: list[FileDescriptorProto] = []
            for name, part in parts.items():
                if part is None:
                    return f"has schema {id}, which imports '{name}', and the registry does not have that"
                file = FileDescriptorProto.FromString(base64.b64decode(part["schema"], validate=True))
                # A registry's name of a file is not always the name in import statements.
                file.name = name or file.name
                files.append(file)
            return files
        except (ValueError, DecodeError):
            return f"has schema {id}, for which the registry returns text and no descriptor: declare it by descriptor="

    @cache
    def message_of(id: int, indexes: tuple[int, ...]) -> Descriptor | str:
        files = files_of(id)
        if isinstance(files, str):
            return files
        try:
            name = _find_message(files[-1], indexes)
        except IndexError:
            return f"names no message of schema {id}"
        if name != format.message:
            return f"is a {name} and no {format.message}"
        return _pool(files).FindMessageTypeByName(name)

    def decode(payload: bytes) -> str:
        id, rest = unframe(payload)
        indexes, body = _indexes(rest)
        message = message_of(id, indexes)
        if isinstance(message, str):
            raise UndecodableError(message, schema=id)
        return _text(body, message)

    return decode


def _text(body: bytes, message: Descriptor) -> str:
    from google.protobuf.json_format import Error, MessageToJson
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    try:
        found = GetMessageClass(message).FromString(body)
    except DecodeError:
        raise UndecodableError(f"is no {message.full_name}", message_name=message.full_name) from None
    try:
        return MessageToJson(
            found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=None
        )
    # TypeError for an Any of an unknown type; ValueError for proto2 text that is not UTF-8.
    except (Error, TypeError, ValueError, RecursionError) as error:
        raise UndecodableError(
            f"is a {message.full_name} without a form in JSON: {error}", message_name=message.full_name
        ) from None


def message_class(files: list[FileDescriptorProto], name: str) -> type[Message]:
    """The class of a message that these files declare."""
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(_pool(files).FindMessageTypeByName(name))


def _pool(files: list[FileDescriptorProto]):
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    pool, own = DescriptorPool(), {file.name for file in files}
    for name in _KNOWN:
        theirs = import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR
        if theirs.name not in own:
            pool.Add(FileDescriptorProto.FromString(theirs.serialized_pb))
    for file in files:
        pool.Add(file)
    return pool


def _find_message(file: FileDescriptorProto, indexes: tuple[int, ...]) -> str:
    """Full name of the message at the indexes, each of which selects a nested message."""
    messages, names = file.message_type, [file.package] if file.package else []
    for index in indexes:
        if index < 0:
            raise IndexError(index)
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def _indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    count, at = _varint(payload, 0)
    found: list[int] = []
    for _ in range(count):
        index, at = _varint(payload, at)
        found.append(index)
    return tuple(found) or (0,), payload[at:]


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """A zigzag-encoded number, and the position after it."""
    number = shift = 0
    while at < len(payload):
        number |= (payload[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not payload[at - 1] & 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise UndecodableError("ends before its message is named", format="protobuf")


def protobuf_encoder(message: str, topic: str, columns: Iterable[pa.Field], registry: Registry) -> Encode:
    """Create the encoder of values with these columns; it registers their schema."""
    file = protobuf_file(message, columns)
    # The descriptor itself, in base64: registries accept it as well as text, and not all of them can derive it from
    # text.
    described = base64.b64encode(file.SerializeToString(deterministic=True)).decode()
    # The 0 in front of the body names the first message of the schema.
    head = frame(registry.register(f"{topic}-value", described, "PROTOBUF")) + b"\x00"
    made = message_class([file], message)
    return lambda row: head + fill_message(made(), row).SerializeToString(deterministic=True)


def protobuf_file(message: str, columns: Iterable[pa.Field]) -> FileDescriptorProto:
    """The file that declares the message with this full name, such as ``shop.Trip``.

    Raises `TypeWithoutFormError` if Protobuf cannot represent a name or a type.
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
            raise TypeWithoutFormError(
                f"column {column.name!r} is no name in Protobuf (letters, digits and _)", column=column.name
            )
        repeated = types.is_list(column.type) or types.is_large_list(column.type)
        kind = column.type.value_type if repeated else column.type
        field = made.field.add(name=column.name, number=number, label=3 if repeated else 1)
        plain = next((found for fits, found in _PLAIN if fits(kind)), None)
        if plain is not None:
            field.type = field.Type.Value(f"TYPE_{plain.upper()}")
        elif types.is_timestamp(kind) or types.is_struct(kind):
            inner = f"{column.name.title().replace('_', '')}Value"
            field.type, field.type_name = field.TYPE_MESSAGE, _TIMESTAMP
            if types.is_struct(kind):
                field.type_name = f".{full}.{inner}"
                _declare(made.nested_type.add(name=inner), f"{full}.{inner}", kind)
        else:
            raise TypeWithoutFormError(
                f"column {column.name!r} is of type {kind}, which Protobuf has no form for", column=column.name
            )
        # A scalar has presence only as the only member of a oneof.
        if not repeated and field.type != field.TYPE_MESSAGE:
            field.proto3_optional, field.oneof_index = True, len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{column.name}")


def _has_timestamp(made: DescriptorProto) -> bool:
    return any(f.type_name == _TIMESTAMP for f in made.field) or any(map(_has_timestamp, made.nested_type))


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
            setattr(message, column, _store(value))
    return message


def _extend(message: Message, column: str, values: list[Any]) -> None:
    target = getattr(message, column)
    if None in values:
        raise TypeWithoutFormError(
            f"column {column!r} has an array with a null in it, which Protobuf has no form for", column=column
        )
    for value in values:
        if isinstance(value, Mapping):
            fill_message(target.add(), value)
        elif isinstance(value, datetime) and value.tzinfo is not None:
            target.add().FromDatetime(value.astimezone(UTC))
        else:
            target.append(_store(value))


def _store(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
