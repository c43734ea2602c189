"""A shop whose folders, files, columns, keys and values have the names that break SQL text."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rivermeet.assets.defs.runs import run_pipeline
from rivermeet.assets.project import Project
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Node, Pipeline

ODD = 'x\'; DROP TABLE y; -- `z` "q" 100% ü [a] {b} ($1) ${spark.sql.ansi.enabled} #&=+,!*'
"""A quote, a backtick, a percent sign, a variable, brackets: all in one name."""
ODD_HOME = ODD.replace("[a]", "(a)").replace("#", "")
"""The same as far as delta-rs can have it in a path; the settings refuse the rest."""
NUMBER, OWNER, PRICE = (f"{ODD} {what}" for what in ("number", "owner", "price"))
NAME, TOWN = f"{ODD} name", f"{ODD} town"


def quoted(column: str) -> str:
    """A column in a declared expression, as the author of a pipeline writes it."""
    return "`" + column.replace("`", "``") + "`"


def shop() -> Pipeline:
    """Orders with the town of their owner, and the same pair as streams within a window."""
    made = Pipeline("odd_names")
    in_orders = {NUMBER: "STRING", OWNER: "STRING", PRICE: "INT", "at": "BIGINT"}
    in_owners = {NAME: "STRING", TOWN: "STRING", "at": "BIGINT"}
    orders = made.table(
        "orders",
        Files("orders/*.csv", "csv", in_orders),
        key=[NUMBER],
        value=[OWNER, PRICE],
        timestamp="at",
        partitions=2,
        max_bad_share=0.5,
    )
    owners = made.table("owners", Files("owners", "csv", in_owners), key=[NAME], value=[TOWN], timestamp="at")
    orders.left_join(owners, "owned", foreign_key=quoted(OWNER))
    return made


@dataclass
class Shop:
    """The pipeline in a home of its own, and what its runs said."""

    project: Project
    said: list[str]
    pipeline: Pipeline = field(default_factory=shop)

    @classmethod
    def below(cls, home: Path, engine: Settings) -> Shop:
        """All that runs write lies in ``home``, the tables in a folder of their own."""
        private = replace(
            engine, home=home, tables=str(home / f"tables (b) {ODD_HOME}"), data=str(home / f"data {ODD}")
        )
        said: list[str] = []
        return cls(Project(private, Sessions(engine), say=said.append), said)

    def deliver(self, source: str, name: str, header: Iterable[str], *rows: Iterable[object]) -> Path:
        """Write a file of a source, and give its path."""
        path = Path(self.project.settings.data, source, f"{name}.csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return path

    def run(self) -> bool:
        """Materialise all nodes; whether every step and check was green."""
        return run_pipeline(self.project, self.pipeline)

    def node(self, name: str) -> Node:
        """A node of the pipeline."""
        return self.pipeline.node(name)
