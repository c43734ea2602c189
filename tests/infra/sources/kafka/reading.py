"""A process that reads a topic for one epoch, to be killed on the way (``RIVERMEET_CRASH_AT``).

python -m tests.infra.sources.kafka.reading ROOT ADDRESS TOPIC
"""

from __future__ import annotations

import sys
from pathlib import Path

from rivermeet.assets.epoch.run import run_node
from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.formats.registry import NONE
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.kafka.ingest import TopicStep
from rivermeet.pipelines import Kafka, Pipeline, Text
from tests.infra.epochs.killed import world


def main(root: str, address: str, topic: str) -> None:
    """One epoch of the stream that the tests of faults declare."""
    node = Pipeline("shop").stream("lines", Kafka(topic, key=Text(), value=Text()))
    target = world(Path(root), Settings.from_env())
    context, landing = target.runner("shop"), Path(root, "landing", "lines")
    connection = Connection({"bootstrap.servers": address})
    run_node(context, TopicStep(node, context.paths(node), context.log, connection, NONE, landing))


if __name__ == "__main__":
    main(*sys.argv[1:])
