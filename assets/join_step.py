"""A declared join as a step of the commit protocol: the one place where an operator meets its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from infra.delta_io import last_note
from infra.inputs import PinnedInputs, pinned_table
from infra.layout import NodeTables
from infra.plan import CommitNote, EpochPlan, InputSlice
from pipelines import Join, Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from infra.epochs import Audit, StepFrames
    from infra.shared_frames import SharedFrames


@dataclass(frozen=True)
class JoinStep:
    """One join node.

    Attributes
    ----------
    tables
        Folder or URL of all tables.
    judge
        Judges an epoch's rows before they are committed.
    """

    node: Node
    tables: str
    judge: Audit | None = None
    code_version: str = ""
    incarnation: int = 1

    @property
    def join(self) -> Join:
        """The declared join."""
        assert self.node.join_spec is not None
        return self.node.join_spec

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Side to input node."""
        return {"left": self.join.left, "right": self.join.right}

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """Plan all records that are new in both inputs; None while an input has no changelog yet."""
        from joins.operator import operator_of

        state = operator_of(self.join).state(self.join)
        inputs: dict[str, InputSlice] = {}
        sides: dict[Literal["left", "right"], Node] = {"left": self.join.left, "right": self.join.right}
        for side, node in sides.items():
            paths = NodeTables(self.tables, node.pipeline.name, node.name)
            found = last_note(paths.changelog)
            if found is None:
                return None
            after = previous.consumed.get(side, {}) if previous else {}
            upto = found[1].ends
            table: dict[str, Any] = {}
            if state.get(side) in ("before", "after"):
                position = after if state[side] == "before" else upto
                pin, ends = pinned_table(paths.table, position)
                table = {"table_version": pin, "table_ends": ends}
            inputs[side] = InputSlice(version=found[0], after=after, upto=upto, **table)
        if previous is not None and not any(inputs[s].records for s in self.join.triggers):
            return None
        return EpochPlan(
            pipeline=self.node.pipeline.name,
            node=self.node.name,
            incarnation=self.incarnation,
            epoch=epoch,
            inputs=inputs,
            output_version=version,
            ends=previous.ends if previous else {},
            stream_time=previous.stream_time if previous else {},
            semantics=self.join.semantics,
            code_version=self.code_version,
        )

    def pinned(self, spark: SparkSession, plan: EpochPlan) -> PinnedInputs:
        """The frames that a plan may read."""
        from joins.changelog import as_of, unflatten

        return PinnedInputs(spark, plan, self.tables, self.nodes, unflatten, as_of)

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Run the operator on what the plan pins."""
        from infra.epochs import StepFrames
        from joins.operator import EpochInputs, compute
        from joins.order import LEFT, RIGHT, in_processing_order

        pinned = self.pinned(spark, plan)
        left = shared.keep(in_processing_order(pinned.new("left"), LEFT))
        right = shared.keep(in_processing_order(pinned.new("right"), RIGHT))
        frames = compute(
            self.join,
            EpochInputs(
                left,
                right,
                pinned.open_records,
                pinned.table,
                lambda slack: pinned.emitted(self.node, slack),
                plan.stream_time,
                shared.keep,
            ),
        )
        sides = {} if frames.late is None else {"late": frames.late}
        timed = (left, right) if self.join.family == "stream-stream" else ()
        return StepFrames(frames.rows, sides, timed)

    def audit(self, spark: SparkSession, plan: EpochPlan, rows: DataFrame, counts: Mapping[str, int]) -> Sequence[Any]:
        """Judge the rows before they are committed."""
        return self.judge(spark, plan, rows, counts) if self.judge else ()

    def flatten(self, changelog: DataFrame) -> DataFrame:
        """The last row per key as columns of the folded table."""
        return to_table(changelog)


def to_table(changelog: DataFrame) -> DataFrame:
    """The last row per key as columns of the folded table."""
    from joins.changelog import flatten, last_per_key

    return flatten(last_per_key(changelog))
