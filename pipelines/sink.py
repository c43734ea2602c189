"""A topic that a node's changelog is written to.

    trips.to_topic("trips", value=JSON())

    row of the changelog                              record of the topic
    key {id: a}, value {n: 1}, timestamp 1000         key a, value {"n": 1}, timestamp 1000
    key {id: a}, value null, timestamp 2000           key a, no value: a tombstone
    key {id: a, leg: 2}, value {n: 1}, …              key {"id": "a", "leg": 2}, …
    timestamp -5                                      timestamp 0, and -5 in the header rivermeet-timestamp

A key of one STRING column is written as text by default, and any other as JSON. The address of the broker is only in
settings. Held by ``tests/pipelines/test_sink.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rivermeet.pipelines.reads.kafka import JSON, TOPIC, Avro, Number, Protobuf, Raw, Text

if TYPE_CHECKING:
    from rivermeet.pipelines.nodes import Node

Written = JSON | Text | Number | Raw
"""Formats that keys can be written in: equal keys have equal bytes, independent of a registry."""
WrittenValue = JSON | Avro | Protobuf
"""Formats that values can be written in."""
_TYPES: dict[type, str] = {Text: "STRING", Raw: "BINARY"}


@dataclass(frozen=True, eq=False)
class TopicSink:
    """The topic to which a node's rows are delivered, each once.

    Attributes
    ----------
    node
        The node whose changelog is written.
    topic
        Name of the topic.
    value, key
        Their formats. `Text`, `Number` and `Raw` are of a key that has one column of their type. Avro and Protobuf are
        written with schemas that are derived from the node's columns and registered with the registry.
    partitions
        The number with which a missing topic is created; None: it has to exist.
    """

    node: Node = field(repr=False)
    topic: str
    value: WrittenValue
    key: Written
    partitions: int | None = None

    @property
    def id(self) -> str:
        """The name under which positions are stored."""
        return f"{self.node.name}>{self.topic}"


def topic_sink(
    node: Node, topic: str, value: WrittenValue | None, key: Written | None, partitions: int | None
) -> TopicSink:
    """The validated sink of a node."""
    place = f"{node.name}.to_topic({topic!r})"
    if not TOPIC.fullmatch(topic):
        raise node.refuse(place, "a topic's name is letters, digits, '.', '_' and '-'")
    if not node.is_stored:
        raise node.refuse(place, "a view has no changelog; write what it is made of")
    if partitions is not None and partitions < 1:
        raise node.refuse(place, f"partitions is {partitions}; give 1 or more")
    value = JSON() if value is None else value
    if not isinstance(value, JSON | Avro | Protobuf):
        raise node.refuse(place, f"values are written as JSON, Avro or Protobuf, and value is {value!r}")
    if value.schema or getattr(value, "writer", None) or getattr(value, "descriptor", None):
        raise node.refuse(place, f"value={value!r}: what is written has the columns of its node; leave the schema out")
    types = [kind.upper() for kind in node.key.values()]
    chosen = key if key is not None else Text() if types == ["STRING"] else JSON()
    if not isinstance(chosen, JSON | Text | Number | Raw):
        raise node.refuse(place, f"keys are written as JSON, Text, Number or Raw, and key is {chosen!r}")
    wanted = chosen.type.upper() if isinstance(chosen, Number) else _TYPES.get(type(chosen))
    if wanted is not None and types != [wanted]:
        raise node.refuse(place, f"key={chosen!r} needs one key column of type {wanted}, and the key is {types}")
    return TopicSink(node, topic, value, chosen, partitions)
