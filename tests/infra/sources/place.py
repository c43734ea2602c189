"""What one test's source is read from, and the nodes that read it, run by the real commit protocol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from rivermeet.assets.epoch.run import run_node
from rivermeet.infra.delta.io import read
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.stages.plan import Rebuild
from rivermeet.infra.epochs.step import EpochResult
from rivermeet.pipelines import Node
from tests.world import World


@dataclass
class Place:
    """Topics, tables or a database of one test."""

    world: World
    letters_by: ClassVar[tuple[str, ...]] = ("epoch", "line", "position")

    def source_step(self, node: Node, context: EpochContext) -> Any:
        """The part in the protocol of a node that reads the place."""
        raise NotImplementedError

    def step(self, node: Node) -> Any:
        """A node's part in the protocol."""
        context = self.world.runner(node.pipeline.name)
        if node.operation is not None:
            return replace(self.world.step(node), log=context.log)
        return self.source_step(node, context)

    def run(self, node: Node, **changes: Any) -> EpochResult | None:
        """One epoch of a node; ``changes`` are of its step."""
        return run_node(self.world.runner(node.pipeline.name), replace(self.step(node), **changes)).result

    def run_all(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.run(node)

    def rebuild(self, node: Node) -> EpochResult | None:
        return run_node(self.world.runner(node.pipeline.name), self.step(node), rebuild=Rebuild()).result

    def folded(self, node: Node) -> list[tuple[Any, ...]]:
        """The node's table: its own columns, key first, in order."""
        rows = self.world.rows(node, "table")
        return sorted((tuple(v for name, v in row.items() if not name.startswith("_")) for row in rows), key=repr)

    def letters(self, node: Node) -> list[dict[str, Any]]:
        """All dead letters that ever were, in order."""
        path = self.world.runner(node.pipeline.name).paths(node).dead_letter
        if open_table(path) is None:
            return []
        rows = [cast(dict[str, Any], row.asDict()) for row in read(self.world.spark, path).collect()]
        return sorted(rows, key=lambda row: [row[column] for column in self.letters_by])
