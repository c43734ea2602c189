"""``make demo-kafka``: the same deliveries as files and as topics, joined both ways, and the rows compared.

    trips                    equal: 327,346 rows of files, 327,346 read back of topic flights.trips
    fleet                    UNEQUAL: 2 rows of files alone, 1 of topic flights.fleet alone

A broker and a schema registry run for as long as it lasts, on the loopback; all that both pipelines write lies in a
folder of the home that is removed at the end, also on Ctrl-C. Held by ``tests/demos/test_kafka_demo.py``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow as pa

from rivermeet.assets.cli.terminal import one_line_errors, project_here
from rivermeet.assets.defs.runs import run_pipeline
from rivermeet.assets.demo import feeds
from rivermeet.assets.demo.topics import TopicFeed
from rivermeet.assets.project import Project, demo_project
from rivermeet.infra.delta.io import read
from rivermeet.infra.kafka.formats.codecs import Encode, value_encoder
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.pipelines import Avro, Node, Pipeline
from rivermeet.pipelines.plural import pluralize
from tests.demos.beside import beside
from tests.demos.over_topics import AVRO, over_topics, read_back
from tests.servers.broker import running
from tests.servers.java_server import ServerError
from tests.servers.schema_registry import registry_running


@dataclass(frozen=True)
class AvroFeed(TopicFeed):
    """Topics, some with values in Avro, by a schema registry.

    Attributes
    ----------
    avro
        Kinds of files whose values are Avro: of each its columns with their Spark types. All others are JSON.
    """

    avro: Mapping[str, Mapping[str, str]]
    registry: Registry

    def encoder(self, topic: str, kind: str) -> Encode:
        declared = self.avro.get(kind)
        if declared is None:
            return super().encoder(topic, kind)
        made = {column: _TYPES.get(type.upper(), _TEXT) for column, type in declared.items()}
        columns = [pa.field(column, arrow) for column, (arrow, _) in made.items()]
        encode = value_encoder(Avro(), topic, columns, self.registry)
        return lambda row: encode({c: None if row[c] is None else cast(row[c]) for c, (_, cast) in made.items()})


_TEXT = pa.string(), str
_TYPES = {"INT": (pa.int32(), int), "BIGINT": (pa.int64(), int), "DOUBLE": (pa.float64(), float)}
"""Spark types that a file's text is cast to; all others stay text."""


@dataclass(frozen=True)
class Compared:
    """Rows of one result: of both ways, and those that only one has."""

    node: str
    topic: str
    of_files: int
    of_topic: int
    only_files: int
    only_topic: int

    @property
    def is_equal(self) -> bool:
        """Whether both have the same rows, each as often; two empty results prove nothing."""
        return not self.only_files and not self.only_topic and self.of_files == self.of_topic > 0

    def __str__(self) -> str:
        if self.is_equal:
            what = (
                f"equal: {pluralize(self.of_files, 'row')} of files, {self.of_topic:,} read back of topic {self.topic}"
            )
        else:
            files = pluralize(self.only_files, "row")
            what = f"UNEQUAL: {files} of files alone, {self.only_topic:,} of topic {self.topic} alone"
        return f"  {self.node:<24} {what}"


def demonstrated(pipeline: Pipeline, project: Project, steps: int | None = None) -> bool:
    """Deliver, join and compare; whether all was green and equal.

    Parameters
    ----------
    project
        Whose engine is used; its tables, data and broker are not.
    steps
        How many deliveries; default all.
    """
    with _with_servers(project, bool(AVRO[pipeline.name])) as own:
        topics = over_topics(pipeline, AVRO[pipeline.name])
        return _joined(own, pipeline, topics, steps or feeds.steps(pipeline.name)) and _compared(own, pipeline, topics)


def _joined(project: Project, pipeline: Pipeline, topics: Pipeline, steps: int) -> bool:
    """Run both pipelines after each delivery; whether all was green."""
    settings, data = project.settings, Path(project.settings.data)
    sources = {node.name: node.source.files.schema for node in pipeline.nodes if node.source is not None}
    avro = {kind: sources[kind] for kind in AVRO[pipeline.name]}
    feed = AvroFeed(settings.kafka, settings.home / "delivered", avro, project.registry)
    for step in range(1, steps + 1):
        written = feeds.feed(pipeline.name, data, step)
        project.say(f"step {step} of {steps}: {pluralize(len(written), 'file')} delivered, and their rows as topics")
        feed.send(pipeline.name, written, data)
        for way in (pipeline, topics):
            project.say(f"{way.name}:")
            if not run_pipeline(project, way):
                return False
    return True


def _compared(project: Project, pipeline: Pipeline, topics: Pipeline) -> bool:
    """Read the written topics back, and compare them with the changelogs of the pipeline over files."""
    types = {sink.node.name: _value_types(project, pipeline.node(sink.node.name)) for sink in topics.sinks}
    back = read_back(topics, types)
    project.say(f"{back.name}:")
    if not run_pipeline(project, back):
        return False
    found = [
        _difference(project, pipeline.node(sink.node.name), back.node(sink.node.name), sink.topic)
        for sink in topics.sinks
    ]
    project.say("the rows of both ways:")
    for one in found:
        project.say(str(one))
    return all(one.is_equal for one in found)


def _value_types(project: Project, node: Node) -> Mapping[str, str]:
    value = read(project.sessions.open(), project.context(node.pipeline).paths(node).changelog).schema["value"].dataType
    return {field.name: field.dataType.simpleString().upper() for field in value.fields}  # pyright: ignore[reportAttributeAccessIssue]


def _difference(project: Project, of_files: Node, of_topic: Node, topic: str) -> Compared:
    spark = project.sessions.open()
    one, other = (
        read(spark, project.paths(node).changelog).select("key", "value", "timestamp") for node in (of_files, of_topic)
    )
    counts = [rows.count() for rows in (one, other, one.exceptAll(other), other.exceptAll(one))]
    return Compared(of_files.name, topic, *counts)


@contextmanager
def _with_servers(project: Project, with_registry: bool) -> Iterator[Project]:
    """A project with a broker and a registry of its own; all gone at the end, also on SIGTERM."""
    ended = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with ExitStack() as stack:
            broker = stack.enter_context(running())
            url = stack.enter_context(registry_running()).url if with_registry else ""
            project.say(f"a broker runs on {broker.address}" + (f", a schema registry at {url}" if url else ""))
            kafka = {"bootstrap.servers": broker.address}
            yield stack.enter_context(beside(project, "demo-kafka", kafka=kafka, schema_registry=url))
    finally:
        signal.signal(signal.SIGTERM, ended)


@click.command()
@click.argument("pipeline", default="flights")
@one_line_errors()
def main(pipeline: str) -> None:
    """Join PIPELINE's deliveries as files and as topics, and compare the rows."""
    project = project_here(demo_project)
    try:
        sys.exit(0 if demonstrated(project.pipeline(pipeline), project) else 1)
    except ServerError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
