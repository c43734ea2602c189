"""A feed delivered as topics: each row of its files a record, keyed, in the order of the files.

    flights/airlines/2013-01.csv     carrier,name,exported          one file
                                     UA,United Air Lines Inc.,…     one row

    topic flights.airlines           key {"carrier": "UA"}, value {"carrier": "UA", "name": "United Air Lines Inc.", …}

What a file writes as not known is null. Values are JSON. Keys lie in the partitions that Java's clients give them. A
file is delivered once to a cluster: the home keeps which. Held by ``tests/infra/sources/kafka/test_feed.py``.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivermeet.assets.demo.feeds import feed, feed_of
from rivermeet.assets.demo.files import unpack
from rivermeet.infra.kafka.connection import KEEPS_ALL, Connection, cluster_id, make_topic
from rivermeet.infra.kafka.formats.codecs import Encode, value_encoder
from rivermeet.infra.kafka.formats.registry import NONE
from rivermeet.pipelines import JSON, limits
from rivermeet.pipelines.errors import RivermeetError
from rivermeet.pipelines.plural import pluralize

PARTITIONS = 4


class FeedError(RivermeetError):
    """A broker that did not take what was delivered."""

    remedy = "See to the broker, and deliver again."


@dataclass(frozen=True)
class TopicFeed:
    """Topics of one broker.

    Attributes
    ----------
    properties
        librdkafka's, ``bootstrap.servers`` among them.
    delivered
        Folder that keeps which files each cluster has.
    """

    properties: Mapping[str, str]
    delivered: Path

    def deliver(self, pipeline: str, step: int | None = None) -> list[str]:
        """Deliver a pipeline's rows up to and with a step; per file that was not delivered before a line about it."""
        with tempfile.TemporaryDirectory() as folder:
            return self.send(pipeline, feed(pipeline, Path(folder), step), Path(folder))

    def send(self, pipeline: str, paths: Iterable[str], folder: Path) -> list[str]:
        """Deliver the rows of these files, named as in the folder; per file that was not delivered before a line."""
        written_by, connection = feed_of(pipeline), Connection(self.properties)
        known = self.delivered / cluster_id(connection)
        said: list[str] = []
        for path in paths:
            kind = Path(path).parent.name
            topic = f"{pipeline}.{kind}"
            if not make_topic(connection, topic, PARTITIONS, KEEPS_ALL) and (known / path).exists():
                continue
            count = self._send(topic, kind, written_by.KEYS[kind], rows(folder / path, written_by.NOT_KNOWN))
            (known / path).parent.mkdir(parents=True, exist_ok=True)
            (known / path).touch()
            said.append(f"sent {pluralize(count, 'record')} of {path} to topic {topic}")
        return said

    def _send(self, topic: str, kind: str, key: Sequence[str], found: Iterator[Mapping[str, Any]]) -> int:
        value_of = self.encoder(topic, kind)
        records = ((json.dumps({column: row[column] for column in key}), value_of(row)) for row in found)
        return produce_all(self.properties, topic, records)

    def encoder(self, topic: str, kind: str) -> Encode:
        """The encoder of the values of a kind of files: JSON."""
        return value_encoder(JSON(), topic, (), NONE)


def produce_all(properties: Mapping[str, str], topic: str, records: Iterable[tuple[Any, Any]]) -> int:
    """Send keys and values to a topic, where Java's clients put them; how many.

    Raises
    ------
    FeedError
        If the broker does not take them.
    """
    from confluent_kafka import KafkaError, Producer

    failed: list[str] = []

    def done(error: KafkaError | None, message: object) -> None:
        if error is not None:
            failed.append(error.name())

    own = {"enable.idempotence": True, "partitioner": "murmur2_random", "compression.type": "zstd", "log_level": 0}
    producer, count = Producer({**properties, **own}), 0
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=done)
                break
            except BufferError:
                # The queue is full: what was delivered makes room.
                producer.poll(0.1)
        producer.poll(0)
        count += 1
    if producer.flush(limits.FEED_SECONDS) or failed:
        raise FeedError(
            f"topic {topic}: the broker did not take all records ({', '.join({*failed}) or 'too slow'})", topic=topic
        )
    return count


def rows(path: Path, not_known: str | None) -> Iterator[dict[str, Any]]:
    """Rows of a feed's file, as they are but for what is not known."""
    text = io.StringIO(unpack(path).decode())
    found = map(json.loads, text) if path.suffix == ".jsonl" else csv.DictReader(text)
    for row in found:
        yield {column: None if value == not_known else value for column, value in row.items()}
