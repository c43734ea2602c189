"""A process that delivers a changelog: to be killed at a point of the way (``RIVERMEET_CRASH_AT``), or to wait there.

    python -m tests.infra.sinks.delivering ROOT ADDRESS STOCK OUT [POINT]

With a POINT it says ``waiting`` there, and goes on at a line of its input. It ends with 0 where all was delivered, and
with the name of what refused it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from rivermeet.infra import crash
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.sinks.kafka.deliver import deliver
from rivermeet.pipelines import JSON, Kafka, Pipeline, Text

MOST = 2
"""Rows of a transaction, so that there are several."""


def no_session() -> NoReturn:
    raise AssertionError("a small changelog is read without Spark")


def main(root: str, address: str, stock: str, out: str, point: str = "") -> None:
    """Deliver, as `Shop` in the tests declares it."""
    node = Pipeline("shop").table("stock", Kafka(stock, key=Text("id"), value=JSON({"n": "INT"})))
    changelog = NodeTables(str(Path(root, "tables")), "shop", "stock").changelog

    def wait(at: str, name: str) -> None:
        if at == point:
            print("waiting", flush=True)
            sys.stdin.readline()

    if point:
        crash.crash_at = wait
    try:
        deliver(
            node.to_topic(out, partitions=2), changelog, Connection({"bootstrap.servers": address}), no_session, MOST
        )
    except EpochRefusedError as refusal:
        sys.exit(type(refusal).__name__)


if __name__ == "__main__":
    main(*sys.argv[1:])
