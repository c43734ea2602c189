"""A feed delivered as topics: each row of its files a record of JSON, keyed, in the order of the files.

    flights/airlines/2013-01.csv     carrier,name,exported          one file
                                     UA,United Air Lines Inc.,…     one row

    topic flights.airlines           key {"carrier": "UA"}, value {"carrier": "UA", "name": "United Air Lines Inc.", …}

What a file writes as not known is null. Keys lie in the partitions that Java's clients give them. A file is delivered
once to a cluster: the home keeps which. Held by ``tests/infra/sources/kafka/test_feed.py``.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.feeds.registry import feed, keys, not_known

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

PARTITIONS = 4
ANSWER, SECONDS = 10.0, 60.0
"""How long the broker may take to answer, and for a file's records."""


class FeedError(ValueError):
    """A broker that did not take what was delivered."""


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
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        keyed = keys(pipeline)
        admin = AdminClient({**self.properties, "log_level": 0})
        try:
            cluster = admin.list_topics(timeout=ANSWER)
        except KafkaException as error:
            raise FeedError(f"the broker does not answer ({error.args[0].name()})") from None
        known = self.delivered / str(cluster.cluster_id)
        said: list[str] = []
        with tempfile.TemporaryDirectory() as folder:
            for path in feed(pipeline, Path(folder), step):
                kind = Path(path).parent.name
                topic = f"{pipeline}.{kind}"
                if topic not in cluster.topics:
                    _make(admin, topic)
                    cluster = admin.list_topics(timeout=ANSWER)
                elif (known / path).exists():
                    continue
                count = self._send(topic, keyed[kind], rows(Path(folder, path), not_known(pipeline)))
                (known / path).parent.mkdir(parents=True, exist_ok=True)
                (known / path).touch()
                said.append(f"sent {count:,} records of {path} to topic {topic}")
        return said

    def _send(self, topic: str, key: Sequence[str], found: Iterator[Mapping[str, Any]]) -> int:
        from confluent_kafka import KafkaError, Producer

        failed: list[str] = []

        def done(error: KafkaError | None, message: object) -> None:
            if error is not None:
                failed.append(error.name())

        own = {"enable.idempotence": True, "partitioner": "murmur2_random", "compression.type": "zstd", "log_level": 0}
        producer = Producer({**self.properties, **own})
        count = 0
        for row in found:
            payload = json.dumps({column: row[column] for column in key}), json.dumps(row)
            while True:
                try:
                    producer.produce(topic, payload[1], payload[0], on_delivery=done)
                    break
                except BufferError:
                    # The queue is full: what was delivered makes room.
                    producer.poll(0.1)
            producer.poll(0)
            count += 1
        if producer.flush(SECONDS) or failed:
            raise FeedError(
                f"topic {topic}: the broker did not take all records ({', '.join({*failed}) or 'too slow'})"
            )
        return count


def rows(path: Path, not_known: str | None) -> Iterator[dict[str, Any]]:
    """Rows of a feed's file, as they are but for what is not known."""
    packed = path.read_bytes()
    if path.suffix == ".gz":
        packed = gzip.decompress(packed)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            packed = archive.read(archive.namelist()[0])
    text = io.StringIO(packed.decode())
    found = map(json.loads, text) if path.suffix == ".jsonl" else csv.DictReader(text)
    for row in found:
        yield {column: None if value == not_known else value for column, value in row.items()}


def _make(admin: AdminClient, topic: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.cimpl import NewTopic  # pyright: ignore[reportAttributeAccessIssue]

    # A feed's times are long past: retention would remove its records at once.
    made = NewTopic(topic, PARTITIONS, config={"retention.ms": "-1"})
    try:
        admin.create_topics([made])[topic].result()
    except KafkaException as error:
        raise FeedError(f"topic {topic} cannot be made ({error.args[0].name()})") from None
