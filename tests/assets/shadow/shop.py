"""A pipeline over topics of a test, and the output topic that an application would write beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rivermeet.assets.project import Project
from rivermeet.assets.shadow.audit import Shadowed, audit
from rivermeet.assets.shadow.marks import Marks, mark
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import JSON, Kafka, Node, Pipeline, Shadow, Text
from tests.infra.sources.kafka.town import Town

Sent = tuple[str, str, Any, int]
"""Topic, key, value (None: a tombstone) and timestamp; all go to partition 0."""
Row = tuple[str, Any, int]
"""Key, value and timestamp of the application's output."""


@dataclass
class Shop:
    """One test's pipeline, its tables where the project looks for them."""

    town: Town
    settings: Settings
    pipeline: Pipeline = field(default_factory=lambda: Pipeline("shop"))

    @property
    def project(self) -> Project:
        root = self.town.world.root
        kafka = {"bootstrap.servers": self.town.broker.address}
        home = replace(self.settings, home=root, tables=str(root / "tables"), data=str(root / "data"), kafka=kafka)
        return Project(home, Sessions(self.settings), (self.pipeline,))

    def reads(self, topic: str, **schema: str) -> Kafka:
        """A topic of JSON that is made here."""
        return Kafka(self.town.make(topic), key=Text("id"), value=JSON(schema))

    def send(self, sent: Iterable[Sent]) -> None:
        for topic, key, value, at in sent:
            self.town.send(topic, (0, key, value, at))

    def run(self) -> None:
        self.town.run_all(self.pipeline.nodes)

    def writes(self, topic: str, rows: Sequence[Row]) -> str:
        """The application's output; the topic's name."""
        name = self.town.make(topic)
        self.town.send(topic, *((0, key, value, at) for key, value, at in rows))
        return name

    def audit(self, node: Node, topic: str, marks: Marks | None = None, **options: Any) -> Shadowed:
        found = Shadow(node, topic, **options)
        return audit(self.project, found, marks or mark(self.project, found))


def found(outcome: Shadowed) -> dict[tuple[str, ...], tuple[str, str]]:
    """Key, or key and value, of each difference that is shown, to its kind and cause."""
    table = outcome.shadow.node.is_table
    named: dict[tuple[str, ...], tuple[str, str]] = {}
    for one in outcome.differences:
        for line in one.first:
            key = ",".join(str(part) for part in json.loads(line["key"]).values())
            row = line["theirs"] or line["ours"] if one.kind == "extra" else line["ours"] or line["theirs"]
            shown = (key,) if table else (key, *(str(v) for v in json.loads(row["value"]).values()))
            named[shown] = one.kind, one.cause.id
    return named
