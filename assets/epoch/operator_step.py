"""A declared operation as a step of the commit protocol: the one place where an operator meets its inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rivermeet.assets.epoch.failing_records import letters, without_failing_records
from rivermeet.assets.project import Project
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.declaration import new_columns, refuse_lacking
from rivermeet.infra.epochs.external_modifications import refuse_modified_node, refuse_unreadable
from rivermeet.infra.epochs.inputs import PinnedInputs, broadcast_if_few, pin_table
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import EpochPlan, InputSlice
from rivermeet.infra.epochs.step import Step, StepFrames
from rivermeet.infra.epochs.waiting import Queues, hold_back
from rivermeet.infra.sources.kafka.topic import Topics
from rivermeet.joins.equal_columns import find_needed
from rivermeet.joins.operator import (
    EpochInputs,
    Moment,
    Numbers,
    Side,
    compute,
    declare_numbers,
    operator_of,
    reads_once,
)
from rivermeet.joins.order import LEFT, RIGHT, in_processing_order
from rivermeet.joins.stream_global.global_view import resolve
from rivermeet.pipelines import GlobalView, Node, Operation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ordered = Callable[["DataFrame", int], "DataFrame"]


def step_of(project: Project, node: Node) -> Step:
    """A node's part in an epoch, computed or read."""
    if node.operation is None:
        return project.source_step(node)
    log = project.context(node.pipeline).log
    return OperatorStep(node, project.settings.tables, session=project.sessions.open, log=log)


@dataclass(frozen=True)
class OperatorStep:
    """One computed node.

    Attributes
    ----------
    tables
        Folder or URL of all tables.
    session
        Gives a session where planning has to look into an input: only when records are held back.
    ordered
        Gives an input's records their ``order`` and ``commit``; default: by head timestamp, one commit an epoch.
    numbers
        Adds declared numbers as columns; default: the declared ones.
    clock
        Wall clock, epoch millis.
    log
        The pipeline's epoch log: it says how many partitions the topics have that inputs come from.
    elsewhere
        Names of inputs to the folder or URL of their tables, where that is another one than ``tables``.
    among
        Side to the partitions that are read of it; of a side that is not named, all.
    """

    node: Node
    tables: str
    session: Callable[[], SparkSession] | None = None
    ordered: Ordered | None = None
    numbers: Numbers | None = None
    clock: Callable[[], float] = lambda: time.time() * 1000
    log: EpochLog | None = None
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    among: Mapping[str, Collection[int]] = field(default_factory=dict)

    def paths(self, node: Node) -> NodeTables:
        """Locations of an input's tables."""
        return NodeTables(self.elsewhere.get(node.name, self.tables), node.pipeline.name, node.name)

    @property
    def operation(self) -> Operation:
        """The declared operation."""
        assert self.node.operation is not None
        return self.node.operation

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Side to input node; a view stands for the tables that it is resolved from (``right.left``, …)."""
        return self.operation.stored_inputs

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """Plan all records that are new and need not wait; None while an input has no changelog yet."""
        found: dict[str, tuple[int, CommitNote]] = {}
        for side, node in self.nodes.items():
            paths = self.paths(node)
            note = last_note(paths.changelog)
            if note is None:
                return None
            refuse_lacking(node, note[1])
            refuse_modified_node(paths, node.is_table)
            found[side] = note
        if self._topics is not None:
            self._topics.refuse_unequal(self.node)
        incarnations = {} if previous is None else previous.incarnations
        moved = any(note.incarnation != incarnations.get(side, 1) for side, (_, note) in found.items())
        if previous is not None and moved:
            # An input was recomputed, and what was consumed of it no longer counts.
            plan = self.plan(None, None, epoch)
            return plan.begin_incarnation(previous.incarnation + 1, previous.grace) if plan else None
        after = {side: previous.consumed.get(side, {}) if previous else {} for side in found}
        upto = self._release(found, after)
        inputs: dict[str, InputSlice] = {}
        for side in self.nodes:
            version_of, note = found[side]
            inputs[side] = self.slice(
                side,
                InputSlice(version=version_of, after=after[side], upto=upto[side], incarnation=note.incarnation),
            )
        # A column that the node gets is new, also where no record is: what reads the node has to find it.
        due = any(inputs[s].records for s in self.operation.triggers) or new_columns(self.node, previous)
        if previous is not None and not due:
            return None
        return EpochPlan.after(
            previous,
            version,
            pipeline=self.node.pipeline.name,
            node=self.node.name,
            epoch=epoch,
            inputs=inputs,
            semantics=self.operation.semantics,
        )

    @property
    def _topics(self) -> Topics | None:
        return None if self.log is None else Topics(self.tables, self.log)

    def slice(self, side: str, part: InputSlice) -> InputSlice:
        """A slice of an input, with the folded table that the operator reads beside it."""
        if side in self.among:
            part = part.model_copy(update={"upto": {p: n for p, n in part.upto.items() if p in self.among[side]}})
        moment = operator_of(self.operation).state(self.operation).get(side.partition(".")[0])  # pyright: ignore
        if moment not in ("before", "after"):
            return part
        node = self.nodes[side]
        path = self.paths(node).table
        pin, ends = pin_table(path, part.after if moment == "before" else part.upto, part.incarnation)
        return part.model_copy(update={"table_version": pin, "table_ends": ends})

    def explain_skip(self, plan: EpochPlan) -> str | None:
        """Why the plan must be skipped: an input was recomputed since."""
        rebuild = NodeTables(self.tables, plan.pipeline, plan.node).rebuild
        for side, part in plan.inputs.items():
            node = self.nodes[side]
            paths = self.paths(node)
            found = last_note(paths.changelog)
            if found is None or found[1].incarnation != part.incarnation:
                return f"its input '{node.name}' was recomputed after the plan was made"
            if part.table_version is not None:
                table = f"table of '{paths.pipeline}.{paths.node}'"
                refuse_unreadable(paths.table, part.table_version, table, rebuild)
        return None

    def _release(
        self, found: Mapping[str, tuple[int, CommitNote]], after: Mapping[str, Mapping[int, int]]
    ) -> Mapping[str, dict[int, int]]:
        """Up to where each input may be read: all of it, but for what must wait for the other input."""
        ends = {side: dict(note.ends) for side, (_, note) in found.items()}
        idle = self.operation.max_task_idle_ms
        if idle == 0 or len({node.name for node in self.nodes.values()}) == 1:
            # A stream joined with itself is one queue, which waits for no other.
            return ends
        assert self.session is not None, "waiting looks into the inputs"
        paths = {s: self.paths(n).changelog for s, n in self.nodes.items()}
        topics = self._topics
        partitions = {s: topics.count(n) if topics is not None else n.partitions for s, n in self.nodes.items()}
        times = {s: note.times for s, (_, note) in found.items()}
        queues = Queues(paths, ends, times, partitions, self.operation.co_partitioned)
        return hold_back(queues, after, idle, self.session, self.clock())

    def pin(self, spark: SparkSession, plan: EpochPlan) -> PinnedInputs:
        """The frames that a plan may read."""
        return PinnedInputs(spark, plan, self.tables, self.nodes, self.elsewhere)

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Run the operator on what the plan pins."""
        pinned = self.pin(spark, plan)
        operation = self.operation if plan.grace is None else self.operation.with_grace(plan.grace)
        ordered = self.ordered or in_processing_order
        places: dict[Side, int] = {"left": LEFT, "right": RIGHT}
        records: dict[Side, DataFrame] = {}
        for side in places:
            node = self.operation.inputs.get(side)
            if node is not None and not node.is_stored:
                # A view has rows and no records: nothing of it is ever new.
                records[side] = ordered(self.table(pinned, side, "after").where("false"), places[side])
            elif node is not None:
                new = ordered(pinned.new(side), places[side])
                records[side] = new if reads_once(operation) else shared.keep_if_few(new)
        frames = compute(
            operation,
            EpochInputs(
                records=records,
                open_records=pinned.open_records,
                earlier=pinned.earlier,
                table=lambda side, moment: self.table(pinned, side, moment),
                emitted=lambda slack: pinned.read_emitted(self.node, slack),
                memory=lambda: pinned.memory(self.node),
                stream_time=plan.stream_time,
                keep=shared.keep,
                keep_if_few=shared.keep_if_few,
                keep_if_many=shared.keep_if_many,
                broadcast=lambda keys: broadcast_if_few(keys, plan.records),
                numbers=self.numbers or declare_numbers,
            ),
        )
        sides = {} if frames.late is None else {"late": frames.late}
        if (dead := letters(pinned)) is not None:
            sides["dead_letter"] = dead
        return StepFrames(frames.rows, sides, frames.timed, frames.memory)

    def give_up(self, is_running: Callable[[Node], bool]) -> None:
        """Nothing: what the epoch wrote is below its own tables."""

    def without_failing_records(self, spark: SparkSession, plan: EpochPlan, error: Exception) -> EpochPlan | None:
        """The plan without the records that its expressions fail on."""
        return without_failing_records(self, spark, plan, error)

    def table(self, pinned: PinnedInputs, side: Side, moment: Moment) -> DataFrame:
        """Live rows of an input table, those that the epoch needs; a view's are resolved from those of its tables."""
        ways = find_needed(self.operation).get(side)
        if ways is not None:
            return pinned.table(side, moment, pinned.where_needed(side, ways))
        return self._rows(pinned, side, self.operation.inputs[side], moment)

    def _rows(self, pinned: PinnedInputs, side: str, node: Node, moment: Moment) -> DataFrame:
        if node.is_stored:
            return pinned.table(side, moment)
        assert isinstance(node, GlobalView), "what is not stored is a view"
        join = node.join_spec
        rows = {s: self._rows(pinned, f"{side}.{s}", n, moment) for s, n in join.inputs.items()}
        return resolve(join, rows["left"], rows["right"])
