"""Record: a line of the epoch log with the counts of the epoch, and the seconds of each stage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.step import EpochResult
from rivermeet.pipelines import Node


@dataclass(frozen=True)
class Record:
    """The stage of a node."""

    node: Node
    name: ClassVar[str] = "record"

    def explain(self, context: EpochContext) -> str:
        """Describe where the stage writes, in one line."""
        return context.log.path

    def run(self, context: EpochContext, committed: EpochResult, seconds: Mapping[str, float]) -> EpochResult:
        """Write the line; ``seconds`` are of the stages before."""
        result, plan = replace(committed, seconds=dict(seconds)), committed.plan
        line = json.dumps(result.to_line())
        context.log.write(self.node.name, plan.incarnation, plan.epoch, "measured", line)
        return result
