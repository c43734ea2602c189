"""Record: a line of the epoch log with the counts of the epoch, and the seconds of each stage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.stages.commit import Committed
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

    def run(self, context: EpochContext, committed: Committed, seconds: Mapping[str, float]) -> EpochResult:
        """Write the line; ``seconds`` are of the stages before."""
        counts, plan = committed.counts, committed.plan
        result = EpochResult(
            plan=plan,
            version=committed.version,
            note=committed.note,
            rows=counts.rows,
            tombstones=counts.tombstones,
            sides=counts.sides,
            seconds=dict(seconds),
            one_sided=counts.one_sided,
            committed_at=committed.at,
            staged=committed.staged,
            newest_event=max((counts.stream_time or counts.times).values(), default=None),
        )
        line = json.dumps(result.measured())
        context.log.write(self.node.name, plan.incarnation, plan.epoch, "measured", line)
        return result
