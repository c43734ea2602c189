"""`rivermeet demo --kafka`: the same deliveries as files and as topics, joined both ways, and the rows compared.

    trips                    equal: 327,346 rows of files, 327,346 read back of topic flights.trips
    fleet                    UNEQUAL: 2 rows of files alone, 1 of topic flights.fleet alone

A broker and a schema registry run for as long as it lasts, on the loopback; all that both pipelines write lies in a
folder of the home that is removed at the end, also on Ctrl-C. Held by ``tests/assets/demo/test_kafka_demo.py``.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rivermeet.assets.defs.runs import run_pipeline
from rivermeet.assets.demo.over_topics import over_topics, read_back
from rivermeet.assets.project import Project
from rivermeet.infra.feeds import registry as feeds
from rivermeet.pipelines import Node, Pipeline


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
            what = f"equal: {self.of_files:,} rows of files, {self.of_topic:,} read back of topic {self.topic}"
        else:
            what = f"UNEQUAL: {self.only_files:,} rows of files alone, {self.only_topic:,} of topic {self.topic} alone"
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
    with _beside(project, bool(feeds.avro(pipeline.name))) as own:
        topics = over_topics(pipeline, feeds.avro(pipeline.name))
        return _joined(own, pipeline, topics, steps or feeds.steps(pipeline.name)) and _compared(own, pipeline, topics)


def _joined(project: Project, pipeline: Pipeline, topics: Pipeline, steps: int) -> bool:
    """Run both pipelines after each delivery; whether all was green."""
    from rivermeet.infra.feeds.topics import TopicFeed

    settings, data = project.settings, Path(project.settings.data)
    sources = {node.name: node.source.files.schema for node in pipeline.nodes if node.source is not None}
    avro = {kind: sources[kind] for kind in feeds.avro(pipeline.name)}
    feed = TopicFeed(settings.kafka, settings.home / "delivered", avro, project.registry)
    for step in range(1, steps + 1):
        written = feeds.feed(pipeline.name, data, step)
        project.say(f"step {step} of {steps}: {len(written)} files delivered, and their rows as topics")
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
    from rivermeet.infra.delta.io import read

    value = read(project.sessions.open(), project.paths(node).changelog).schema["value"].dataType
    return {field.name: field.dataType.simpleString().upper() for field in value.fields}  # pyright: ignore[reportAttributeAccessIssue]


def _difference(project: Project, of_files: Node, of_topic: Node, topic: str) -> Compared:
    from rivermeet.infra.delta.io import read

    spark = project.sessions.open()
    one, other = (
        read(spark, project.paths(node).changelog).select("key", "value", "timestamp") for node in (of_files, of_topic)
    )
    counts = [rows.count() for rows in (one, other, one.exceptAll(other), other.exceptAll(one))]
    return Compared(of_files.name, topic, *counts)


@contextmanager
def _beside(project: Project, with_registry: bool) -> Iterator[Project]:
    """A project on the same engine with a folder, a broker and a registry of its own; all gone at the end."""
    from rivermeet.infra.engine import session, warm
    from rivermeet.infra.feeds.broker import running
    from rivermeet.infra.feeds.schema_registry import registry_running

    theirs = project.settings
    theirs.home.mkdir(parents=True, exist_ok=True)
    was_running = theirs.engine != "auto" or warm.status(theirs).state is not None
    ended = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="demo-kafka-", dir=theirs.home)))
            broker = stack.enter_context(running())
            url = stack.enter_context(registry_running()).url if with_registry else ""
            project.say(f"a broker runs on {broker.address}" + (f", a schema registry at {url}" if url else ""))
            own = replace(
                theirs,
                home=home,
                tables=str(home / "tables"),
                data=str(home / "data"),
                kafka={"bootstrap.servers": broker.address},
                schema_registry=url,
            )
            yield replace(project, settings=own)
    finally:
        signal.signal(signal.SIGTERM, ended)
        if not was_running:
            session.release()
            if not warm.status(theirs).in_use:
                warm.stop(theirs)
