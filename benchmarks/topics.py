"""``make bench``: JSON from a topic to a judged changelog and out to a topic, beside files and Kafka Streams.

    python -m benchmarks.topics [--records N] [--no-peers]

| row | seconds from … to … |
|---|---|
| Rivermeet, of a topic | plan of the epoch to its judged changelog |
| Rivermeet, of files | the same, of the same records as files of lines |
| Rivermeet, to a topic | asking for the position to the last committed transaction |
| Kafka Streams | start of the program to the last record in the other topic, which it copies as bytes |

A first run of 200,000 records, enough for compiled queries, warms the engine and is not printed. Rows that do not come
to the records that were sent end it without a time. A line of JSON is added to ``bench/topics.jsonl`` in the home.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import click

from benchmarks.peers.kafka_streams import COPIES, copy_topic
from benchmarks.stored import results_file, store
from rivermeet.assets.bench.run import fresh_project, run_epoch
from rivermeet.assets.cli.show.rows import table
from rivermeet.assets.demo.topics import produce_all
from rivermeet.assets.project import Project
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.engine.jars import JarsError
from rivermeet.infra.engine.java import JavaError
from rivermeet.infra.kafka.connection import KEEPS_ALL, Connection, make_topic
from rivermeet.infra.settings import Settings
from rivermeet.infra.sinks.kafka.deliver import deliver
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.pipelines import JSON, Files, Kafka, Node, Pipeline, Text
from tests.servers.broker import Broker, running

PARTITIONS, WARM_UP = 4, 200_000
VALUE = {"amount": "DOUBLE", "note": "STRING", "at": "BIGINT"}


def records(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Key and value of each: about 70 bytes of JSON, of a hundred thousand keys."""
    for n in range(count):
        yield f"k{n * 7919 % 100_000}", {"amount": n / 4, "note": f"order number {n:08d}", "at": 1_700_000_000_000 + n}


def pipelines(topic: str) -> tuple[Pipeline, Pipeline]:
    """The same stream of a topic and of files."""
    of_topic, of_files = Pipeline("bench_topic"), Pipeline("bench_files")
    of_topic.stream("orders", Kafka(topic, key=Text("id"), value=JSON(VALUE)), timestamp="at")
    files = Files("orders/*.jsonl", "json", {"id": "STRING", **VALUE})
    of_files.stream("orders", files, key=["id"], timestamp="at", partitions=PARTITIONS)
    return of_topic, of_files


def send(broker: Broker, topic: str, count: int) -> None:
    """The records, keyed as Java's clients do it."""
    sent = ((key, json.dumps(value)) for key, value in records(count))
    produce_all({"bootstrap.servers": broker.address}, topic, sent)


def time_epoch(project: Project, node: Node, count: int) -> float:
    """Seconds of the one epoch of a node, from its plan until its changelog is judged."""
    epoch = run_epoch(project, [node])
    outcome = epoch.outcomes[node.name]
    if outcome.result is None or outcome.judgement is None or outcome.result.rows != count:
        sys.exit(f"{node.pipeline.name}: {outcome.result and outcome.result.rows} rows of {count:,} records")
    if epoch.missed:
        sys.exit(f"{node.pipeline.name}: checks were not evaluated, its time means nothing: {', '.join(epoch.missed)}")
    return epoch.seconds_to_judge([node])


def time_delivery(project: Project, node: Node, connection: Connection, count: int) -> float:
    """Seconds until a topic has the node's changelog."""
    sink = node.to_topic(f"bench-out-{uuid4().hex[:8]}", partitions=PARTITIONS)
    changelog = project.paths(node).changelog
    assert last_note(changelog) is not None
    start = time.monotonic()
    found = deliver(sink, changelog, connection, project.sessions.open)
    seconds = time.monotonic() - start
    if found is None or found.rows != count:
        sys.exit(f"topic {sink.topic}: {found and found.rows} rows of {count:,}")
    return seconds


def measure(settings: Settings, broker: Broker, count: int) -> tuple[str, dict[str, float]]:
    """The topic of the records, and the seconds of each row of ours."""
    kafka = {"bootstrap.servers": broker.address}
    project, connection = fresh_project(settings, "topics", kafka=kafka), Connection(kafka)
    topic = f"bench-in-{uuid4().hex[:8]}"
    make_topic(connection, topic, PARTITIONS, KEEPS_ALL)
    send(broker, topic, count)
    if sum(topic_state(connection, topic).stable.values()) != count:
        sys.exit(f"topic {topic} did not take all records")
    lines = Path(project.settings.data) / "orders" / "00000.jsonl"
    lines.parent.mkdir(parents=True)
    with lines.open("w") as file:
        file.writelines(json.dumps({"id": key, **value}) + "\n" for key, value in records(count))
    of_topic, of_files = (made.node("orders") for made in pipelines(topic))
    return topic, {
        "Rivermeet, of a topic": time_epoch(project, of_topic, count),
        "Rivermeet, of files": time_epoch(project, of_files, count),
        "Rivermeet, to a topic": time_delivery(project, of_topic, connection, count),
    }


@click.command()
@click.option("--records", "count", default=1_000_000, show_default=True)
@click.option("--peers/--no-peers", "beside", default=True, help="Run Kafka Streams as well.")
def main(count: int, beside: bool) -> None:
    """Warm up, measure, print."""
    settings = Settings.from_env()
    with running() as broker:
        measure(settings, broker, WARM_UP)
        topic, seconds = measure(settings, broker, count)
        absent: dict[str, str] = {}
        for guarantee, name in COPIES.items() if beside else ():
            try:
                with tempfile.TemporaryDirectory() as scratch:
                    seconds[name] = copy_topic(guarantee, broker.address, topic, count, Path(scratch))
            except (JarsError, JavaError) as error:
                absent[name] = str(error)
    rows = [[name, f"{taken:.1f}", f"{count / taken:,.0f}"] for name, taken in seconds.items()]
    print(f"{count:,} records of JSON, {PARTITIONS} partitions")
    print(table(["", "seconds", "records a second"], rows + [[name, "absent", why] for name, why in absent.items()]))
    results = results_file(settings, "topics")
    store(results, [{"at": int(time.time()), "records": count, "seconds": seconds}])
    print(f"stored in {results}")


if __name__ == "__main__":
    main()
