"""A pipeline over files as one over topics, with its results written to topics; and those read back.

    flights, of files      departures ⋈ arrivals = trips
    flights_topics         the same nodes; departures reads topic flights.departures; trips is written to flights.trips
    flights_back           a stream per result: trips reads topic flights.trips

A source hashes its keys again, into as many partitions as over files: then all is the same but where rows come from.
Held by ``tests/demos/test_kafka_demo.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, replace

from rivermeet.pipelines import JSON, Avro, Kafka, Node, Pipeline, Text
from rivermeet.pipelines.sink import TopicSink

PARTITIONS = 4
"""Of each topic that is written."""
AVRO: Mapping[str, Collection[str]] = {"flights": ("flights", "planes"), "invoice": ("customers",)}
"""Sources of each pipeline whose topics are Avro."""


def over_topics(pipeline: Pipeline, avro: Collection[str]) -> Pipeline:
    """The pipeline with each source's files as the topic of the feed, and its last nodes written to topics.

    Parameters
    ----------
    avro
        Nodes whose values are Avro; all others are JSON.
    """
    made = Pipeline(f"{pipeline.name}_topics", pipeline.description, pipeline.freshness)
    copies: dict[str, Node] = {}
    for node in pipeline.nodes:
        if node.source is not None:
            schema = node.source.files.schema
            value = Avro(schema) if node.name in avro else JSON(schema)
            origin = replace(node.source, reads=Kafka(f"{pipeline.name}.{node.name}", value=value))
        else:
            assert node.operation is not None
            parts = {f.name: getattr(node.operation, f.name) for f in fields(node.operation)}  # pyright: ignore[reportArgumentType]
            origin = replace(
                node.operation,  # pyright: ignore[reportArgumentType]
                **{name: copies[part.name] for name, part in parts.items() if isinstance(part, Node)},
            )
        copies[node.name] = made.add(replace(node, pipeline=made, origin=origin))
    for node in results(made):
        value = Avro() if node.is_table and avro else JSON()
        node.to_topic(f"{pipeline.name}.{node.name}", value=value, partitions=PARTITIONS)
    return made


def results(pipeline: Pipeline) -> list[Node]:
    """Joins that no other node of the pipeline reads."""
    read = {part.name for node in pipeline.nodes if node.operation for part in node.operation.inputs.values()}
    return [node for node in pipeline.stored if node.operation is not None and node.name not in read]


def read_back(pipeline: Pipeline, types: Mapping[str, Mapping[str, str]]) -> Pipeline:
    """A pipeline that reads the topics which another writes, each as a stream of its name.

    Parameters
    ----------
    types
        Of each node its value columns with their types, as its changelog has them.
    """
    made = Pipeline(f"{pipeline.name}_back")
    for sink in pipeline.sinks:
        made.stream(
            sink.node.name,
            Kafka(sink.topic, key=_key(sink), value=type(sink.value)(types[sink.node.name])),  # pyright: ignore[reportArgumentType]
            partitions=PARTITIONS,
        )
    return made


def _key(sink: TopicSink) -> JSON | Text:
    columns = sink.node.key
    return Text(next(iter(columns))) if isinstance(sink.key, Text) else JSON(columns)
