"""Protobuf payloads as JSON text, decoded with the writer's descriptor.

| written | text |
|---|---|
| ``id: "a"`` of ``shop.Order`` | ``{"id": "a", "n": 0}``: a field without presence has its default |
| ``optional`` and absent | no such field: it is null |
| an int64, bytes ``ff``, a ``google.protobuf.Timestamp`` | ``"12"``, ``"/w=="``, ``"1970-01-01T00:00:00.001Z"`` |
| another message of the schema | none: a dead letter, because ``shop.Order`` is declared |
| a Timestamp of the year 10000, an Any of an unknown type | none: a dead letter, JSON cannot represent it |

A registry's payload names its message by indexes behind the schema's id: a count and so many numbers, or a lone 0 for
the first message. Held by ``tests/infra/sources/kafka/formats/test_formats.py``.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING

from rivermeet.infra.kafka.formats.framing import Decode, UndecodableError, unframe
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.pipelines import Protobuf

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import Message

_KNOWN = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
"""Google's own files, which any schema may import."""


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
            parts = {**registry.referred(described, "serialized"), "": described}
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
            raise UndecodableError(message)
        return _text(body, message)

    return decode


def _text(body: bytes, message: Descriptor) -> str:
    from google.protobuf.json_format import Error, MessageToJson
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    try:
        found = GetMessageClass(message).FromString(body)
    except DecodeError:
        raise UndecodableError(f"is no {message.full_name}") from None
    try:
        return MessageToJson(
            found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=None
        )
    # TypeError for an Any of an unknown type; ValueError for proto2 text that is not UTF-8.
    except (Error, TypeError, ValueError, RecursionError) as error:
        raise UndecodableError(f"is a {message.full_name} without a form in JSON: {error}") from None


def message_class(files: list[FileDescriptorProto], name: str) -> type[Message]:
    """The class of a message that these files declare."""
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(_pool(files).FindMessageTypeByName(name))


def _pool(files: list[FileDescriptorProto]):
    """The files, with all of Google's files that they may import."""
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
    """The indexes at the front of a payload, and the rest of it."""
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
    raise UndecodableError("ends before its message is named")
