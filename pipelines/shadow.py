"""The output topic of a Kafka Streams application that computes the same as a node: its rows are audited against ours.

    trips.shadowed_by("trips", group="trips-app")

    the application's topic                           compared with
    key a, value {"n": 1}, timestamp 1000             key {id: a}, value {n: 1}, timestamp 1000, by profile kafka-4
    key a, no value                                   the tombstone of key {id: a}; of a stream: nothing, a dead letter

A key of one STRING column is read as text by default, and any other as JSON; values are JSON with the node's columns.
Nothing is written to the topic. Held by ``tests/pipelines/test_shadow.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.reads.kafka import JSON, TOPIC, Format, Kafka, Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rivermeet.pipelines.nodes import Node


@dataclass(frozen=True, eq=False)
class Shadow:
    """A topic that an application writes, with the node that should have the same rows.

    Attributes
    ----------
    node
        The node that is compared.
    topic
        Name of the application's output topic.
    group
        The application's id, which is its consumer group; None: its position is unknown.
    value, key
        Their formats; None: as `to_topic` would write them.
    """

    node: Node = field(repr=False)
    topic: str
    group: str | None = None
    value: Format | None = None
    key: Format | None = None

    @property
    def id(self) -> str:
        """The name under which its results are stored."""
        return f"{self.node.name}~{self.topic}"

    def reads(self, types: Mapping[str, str]) -> Kafka:
        """The topic, with formats derived from the ``types`` of the node's value columns."""
        own = JSON({column: types[column] for column in self.node.value})
        return Kafka(self.topic, value=_fill_format(self.value, own), key=_fill_format(self.key, _own_key(self.node)))


def shadow(node: Node, topic: str, group: str | None, value: Format | None, key: Format | None) -> Shadow:
    """The validated shadow of a node."""
    place = f"{node.name}.shadowed_by({topic!r})"
    if not TOPIC.fullmatch(topic):
        raise node.refuse(place, "a topic's name is letters, digits, '.', '_' and '-'")
    if node.operation is None or not node.is_stored:
        raise node.refuse(place, "an application's answer is compared with a node that is computed and stored")
    for part, format, columns in (("key", key, tuple(node.key)), ("value", value, node.value)):
        if format is None:
            continue
        if not isinstance(format, get_args(Format)):
            raise node.refuse(place, f"{part}={format!r} is no format; give JSON, Avro, Protobuf, Text, Number or Raw")
        found = tuple(format.columns(part))
        if found and len(columns) > 1 and {*found} != {*columns}:
            raise node.refuse(place, f"the {part} has {', '.join(found)}, and the node {', '.join(columns)}")
        if found and len(found) != len(columns):
            raise node.refuse(place, f"the {part} has {pluralize(len(found), 'column')}, and the node {len(columns)}")
    return Shadow(node, topic, group, value, key)


def _own_key(node: Node) -> Format:
    if [kind.upper() for kind in node.key.values()] == ["STRING"]:
        return Text(next(iter(node.key)))
    return JSON(node.key)


def _fill_format(given: Format | None, own: Format) -> Format:
    return own if given is None or (isinstance(given, JSON) and not given.schema) else given
