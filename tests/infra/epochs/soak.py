"""A small pipeline that a worker runs again and again, the files that it is fed, and what it must come to.

Two tables and two streams are read from files; the tables are joined on a foreign key, the streams in a window. Both
joins wait for ever, so that their changelogs do not depend on how the files were cut into epochs: one world that was
killed all the time and one that read everything at once must be the same, row by row.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline
from tests.infra.epochs.killed import deliver, once, side_rows, world
from tests.reference.records import Record, interleave, run
from tests.reference.stream_stream.profile_3_1 import StreamStreamJoin
from tests.world import World

KEYS = [f"k{n}" for n in range(12)]
LAST = [f"last-{n}" for n in range(16)]
"""Keys of the closing files alone: enough for each partition to have one."""
WINDOW_MS, GRACE_MS, STEP_MS = 4_000, 1_000, 1_000
COLUMNS = {"id": "STRING", "v": "STRING", "at": "BIGINT", "gone": "BOOLEAN"}
SOURCES = ("people", "teams", "orders", "payments")
DRAIN = "until-nothing-is-new"


def pipeline() -> Pipeline:
    """Sources first, then the joins."""
    made = Pipeline("soak")
    common: Any = {"key": ["id"], "value": ["v"], "timestamp": "at", "partitions": 2, "max_bad_share": 0.5}
    files = {name: Files(f"{name}/*.jsonl", "json", COLUMNS) for name in SOURCES}
    people = made.table("people", files["people"], tombstone="gone", **common)
    teams = made.table("teams", files["teams"], tombstone="gone", **common)
    orders = made.stream("orders", files["orders"], **common)
    payments = made.stream("payments", files["payments"], **common)
    both: Any = {"select": {"l": "left.v", "r": "right.v"}, "max_task_idle_ms": None}
    people.left_join(teams, "members", foreign_key="v", **both)
    orders.left_join(payments, "paid", window=JoinWindow(WINDOW_MS, WINDOW_MS, GRACE_MS), **both)
    return made


@dataclass
class Feed:
    """Files that arrive one after the other; what is in them depends on the seed alone."""

    data: Path
    seed: int
    delivered: int = 0
    written: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in SOURCES})

    def deliver(self) -> None:
        """Records of about the same second, some in the wrong order, some very late, and a torn line."""
        rng = random.Random(f"{self.seed}/{self.delivered}")
        now = self.delivered * STEP_MS
        for source in SOURCES:
            lines: list[dict[str, Any]] = []
            for _ in range(rng.randint(1, 5)):
                late = rng.choice([0, 0, 0, 0, 10 * STEP_MS])
                at = max(0, now - late + rng.randint(0, 2 * STEP_MS))
                value = rng.choice(KEYS[:4]) if source == "people" else f"{source} {rng.randint(0, 99)}"
                lines.append({"id": rng.choice(KEYS), "v": value, "at": at, "gone": rng.random() < 0.15})
            self._write(source, lines, torn=rng.random() < 0.3)
        self.delivered += 1

    def close(self) -> None:
        """Records so late that no window stays open and no other record has to wait for them."""
        at = (self.delivered + 100) * STEP_MS
        for source in SOURCES:
            self._write(source, [{"id": key, "v": key, "at": at, "gone": False} for key in LAST], torn=False)
        self.delivered += 1

    def _write(self, source: str, lines: list[dict[str, Any]], torn: bool) -> None:
        bad = [f'{{"id": "{self.delivered}'] if torn else []
        deliver(self.data / source / f"{self.delivered:05}.jsonl", [*lines, *bad])
        self.written[source] += lines

    def members(self) -> dict[str, tuple[str, str | None]]:
        """Person to team and its value: the last ones of each, closing records aside."""
        live: dict[str, dict[str, str]] = {"people": {}, "teams": {}}
        for source, rows in live.items():
            for line in self.written[source]:
                rows.pop(line["id"], None)
                if not line["gone"] and line["id"] in KEYS:
                    rows[line["id"]] = line["v"]
        return {person: (team, live["teams"].get(team)) for person, team in live["people"].items()}


def contents(target: World, node: Node) -> dict[str, Counter[str]]:
    """All rows of the node's tables without the epoch that brought them, and how often each stands there."""
    made = side_rows(target, node)
    for table in ("changelog", *(["table"] if node.is_table else [])):
        rows = [{c: v for c, v in row.items() if c != "epoch"} for row in target.rows(node, table)]
        made[table] = Counter(repr(row) for row in rows)
    return made


def paid(target: World, nodes: dict[str, Node]) -> list[tuple[Any, ...]]:
    """What the streams' join must have, by the reference, per partition in order; closing records aside."""
    records: list[Record] = []
    for side, source in (("left", "orders"), ("right", "payments")):
        for row in target.rows(nodes[source]):
            value = row["value"] and row["value"]["v"]
            records.append(Record(side, row["key"]["id"], value, row["timestamp"], row["partition"], row["offset"]))
    left, right = ([r for r in records if r.side == side] for side in ("left", "right"))
    order = interleave(left, right)
    rows = run(StreamStreamJoin("left", WINDOW_MS, WINDOW_MS, GRACE_MS), order)
    return [(order[r.trigger].partition, r.key, r.value, r.timestamp) for r in rows if r.key in KEYS]


def main(root: Path, until: str) -> None:
    """Run all nodes in an order of chance, for ever or until nothing is new."""
    target = world(root, Settings.from_env())
    nodes = list(pipeline().stored)
    while True:
        random.shuffle(nodes)
        found = [result for node in nodes if (result := once(target, node)) is not None]
        if not found and until == DRAIN:
            return
        time.sleep(0 if found else 0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
