"""One epoch of every operator on what earlier epochs left, as a frame: what its golden plan is of.

Each family is declared in its widest type, once for each file in ``joins/`` that computes it. The inputs are a few
records of an earlier epoch and a few new ones. Their size decides nothing: no table counts as small enough to be sent,
so that a plan has the broadcasts that the code asks for, and joins by sorting where it asks for none, as a base of any
size would have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from rivermeet.assets.epoch.operator_step import OperatorStep
from rivermeet.assets.epoch.run import run_epoch
from rivermeet.infra.commit_note import CommitNote, Offsets
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.engine.session import close, new_session
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.rows import with_offsets
from rivermeet.pipelines import JoinWindow, Node, Pipeline, SlidingWindows, TimeWindows, expr
from rivermeet.pipelines.operations import count, maximum
from tests.joins.epochs import batch
from tests.joins.plans.skeleton import skeleton
from tests.world import World

INPUTS = {"stream": "ab", "table": "cdef", "global_table": "gh"}
"""Names by kind. ``e`` is versioned; the key of ``f`` has a name of its own, as a result with both keys needs."""
TYPES = {name: batch.TYPES.replace("k:", "j:") if name == "f" else batch.TYPES for name in "abcdefgh"}
BASE, NEW = range(8), range(8, 12)
PLANNED = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Only a table that is small enough to be sent gives such a filter, too.
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    # Nothing is cut short of what a plan says of itself.
    "spark.sql.maxMetadataStringLength": "100000",
    "spark.sql.debug.maxToStringFields": "1000",
}
POINTS = "substring_index(v, '|', 1)"
LARGEST = "bytecodes of the largest method that is generated: "
BOTH = {"l": "left.v", "r": "right.v"}


def declared() -> tuple[Mapping[str, Node], Mapping[str, Node]]:
    """The inputs, and a node for each golden plan, by name."""
    pipeline = Pipeline("plans")
    inputs: dict[str, Any] = {}
    for kind, names in INPUTS.items():
        sized = {} if kind == "global_table" else {"partitions": 2}
        for name in names:
            options = {"key": {"j" if name == "f" else "k": "k"}, "value": ["v"], "timestamp": "ts", **sized}
            if name == "e":
                options["history"] = 10
            inputs[name] = getattr(pipeline, kind)(name, batch.FILES, **options)
    a, b, c, d, e, f, g, h = inputs.values()
    window: dict[str, Any] = {"window": JoinWindow(10, 6, 5), "select": BOTH}
    points: dict[str, Any] = {"foreign_key": POINTS, "select": BOTH}
    other = {"w": expr(POINTS, "STRING")}
    both = g.left_join(h, "g_h", key=POINTS, select=BOTH)
    by_key = a.group_by_key()
    totals = {"n": count(), "top": maximum("v")}
    nodes = [
        a.join(b, "stream_stream_inner", **window),
        a.outer_join(b, "stream_stream", **window),
        a.left_join(a, "stream_itself", **window),
        a.outer_join(b, "stream_stream_0_10_2", semantics="0.10.2", **window),
        a.outer_join(b, "stream_stream_0_10_0", semantics="0.10.0", **window),
        a.outer_join(b, "stream_stream_kafka_4", semantics="kafka-4", **window),
        a.left_join(c, "stream_table", select=BOTH),
        a.left_join(c, "stream_table_0_10_2", select=BOTH, semantics="0.10.2"),
        a.left_join(c, "stream_table_0_10_0", select=BOTH, semantics="0.10.0"),
        a.left_join(e, "stream_table_grace", grace=8, select=BOTH),
        a.left_join(g, "stream_global", key=POINTS, select=BOTH),
        a.left_join(g, "stream_global_timed", key=POINTS, select=BOTH, bootstrap="timestamp"),
        a.left_join(both, "stream_view", key=POINTS, select={"l": "left.v", "r": "right.r"}),
        c.outer_join(d, "table_table", select=BOTH),
        c.outer_join(d, "table_table_cache", select=BOTH, cache="epoch"),
        c.outer_join(d, "table_table_0_10_0", select=BOTH, semantics="0.10.0"),
        c.outer_join(d, "table_table_kafka_4", select=BOTH, semantics="kafka-4"),
        e.outer_join(d, "table_table_versioned", select=BOTH),
        c.left_join(d, "foreign_key", **points),
        c.left_join(d, "foreign_key_cache", cache="epoch", **points),
        c.left_join(d, "foreign_key_kafka_4_cache", cache="epoch", semantics="kafka-4", **points),
        c.left_join(d, "foreign_key_0_10_2", semantics="0.10.2", **points),
        f.one_to_many_join(d, "one_to_many", **points),
        a.filter("v > 'm'", "filter_stream"),
        c.filter("v > 'm'", "filter_table"),
        c.map_values({"w": "upper(v)"}, "map_values"),
        a.select_key(other, "select_key", 2),
        a.to_table("to_table"),
        c.to_stream("to_stream"),
        a.merge(b, "merge"),
        c.group_by(other).aggregate(totals, "table_aggregate", 2),
        by_key.windowed_by(TimeWindows(10, 3, 8)).aggregate(totals, "windowed_aggregate"),
        by_key.windowed_by(SlidingWindows(10, 8)).aggregate(totals, "sliding_aggregate"),
    ]
    return inputs, {node.name: node for node in nodes}


INPUT_NODES, NODES = declared()


class BaseStep(OperatorStep):
    """The node's first epoch: it takes the base, although more has arrived."""

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """The plan for all there is, cut off where the base ends."""
        plan = super().plan(previous, version, epoch)
        assert plan is not None
        inputs = {
            side: self.slice(side, part.model_copy(update={"upto": _ends(BASE, self.nodes[side])}))
            for side, part in plan.inputs.items()
        }
        return plan.model_copy(update={"inputs": inputs})


class Planner:
    """Plans second epochs in a world of its own.

    Parameters
    ----------
    world
        Takes the inputs, the base as one epoch of theirs and what is new as another.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._spark = new_session(world.spark)
        for name, value in PLANNED.items():
            self._spark.conf.set(name, value)
        for places in (BASE, NEW):
            for node in INPUT_NODES.values():
                records = [((f"k{at % 5}",), (f"k{at % 3}|{at}",), at, at % node.partitions) for at in places]
                world.publish(node, records)

    def backlog(self, name: str) -> str:
        """The skeleton of the rows that a first epoch commits, of all records."""
        step = self._world.step(NODES[name])
        plan = step.plan(None, None, 1)
        assert plan is not None
        with Explained(f"backlog_{name}") as shared:
            return skeleton(_explained(with_offsets(step.compute(self._spark, plan, shared).rows, plan), "FORMATTED"))

    def golden(self, name: str, changed: Callable[[DataFrame], DataFrame] = lambda rows: rows) -> str:
        """The skeleton of the rows that an epoch commits, and its largest method.

        ``changed`` is as a change of the code would be.
        """
        with Explained(f"plans_{name}") as shared:
            rows = changed(self._second(name, shared))
            largest = max([*shared.methods, *methods(rows)])
            return f"{skeleton(_explained(rows, 'FORMATTED'))}{LARGEST}{largest}\n"

    def _second(self, name: str, shared: SharedFrames) -> DataFrame:
        """The rows that a node's second epoch commits."""
        node, runner = NODES[name], self._world.runner("plans")
        path = runner.paths(node).changelog
        if last_note(path) is None:
            run_epoch(replace(runner, folds="never"), BaseStep(node, runner.tables, session=lambda: self._world.spark))
        found, step = last_note(path), self._world.step(node)
        assert found is not None
        plan = step.plan(found[1], found[0], 2)
        assert plan is not None and plan.records, f"{name} has nothing to do"
        return with_offsets(step.compute(self._spark, plan, shared).rows, plan)

    def close(self) -> None:
        """Give up its session."""
        close(self._spark)


class Explained(SharedFrames):
    """Frames that are kept, and the sizes of the methods generated for them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.methods: list[int] = []

    def keep(self, frame: DataFrame) -> DataFrame:
        """As it is kept in an epoch."""
        self.methods += methods(frame)
        return super().keep(frame)


def methods(frame: DataFrame) -> list[int]:
    """Bytecodes of the largest method of each stage of a query."""
    return [int(size) for size in re.findall(r"maxMethodCodeSize:(\d+)", _explained(frame, "CODEGEN"))]


def _explained(frame: DataFrame, how: str) -> str:
    view = "explained"
    frame.createOrReplaceTempView(view)
    try:
        return frame.sparkSession.sql(f"EXPLAIN {how} SELECT * FROM {view}").collect()[0].plan
    finally:
        frame.sparkSession.catalog.dropTempView(view)


def _ends(places: range, node: Node) -> Offsets:
    return {p: sum(at % node.partitions == p for at in places) - 1 for p in range(node.partitions)}
