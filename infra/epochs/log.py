"""The epoch log: one small append-only Delta table per pipeline, a line for each plan, refusal and measurement.

A plan that was put aside has the line ``refused``; one that its audit refused has ``held``, and ``decided`` if a person
decided about it (``assets/refused/states.py``). An epoch without ``judged`` was committed by a run that ended before
its checks; the line ``folded`` belongs to an epoch at which the folded table was judged. The line ``delivered`` of a
topic is stored under the sink's id, and the result of an application's audit (``shadowed``) under the shadow's.
``position`` is the last position that an epoch saw in a topic of envelopes
(``infra/sources/debezium/repeats.py``). ``snapshot`` is the position of a snapshot in a database's log, and
``slot`` the state of the slot, under the database's name.

A plan counts as consumed when its output's commit has reached its epoch; until then it is executed unchanged.
Lines are written and read without Spark: a plan costs milliseconds, and a run that finds nothing new needs no engine.
A refused plan of a source is skipped: its files were never consumed, so they can be corrected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from filelock import FileLock

from rivermeet.infra.delta.lines import append_lines, lines_of, open_lines
from rivermeet.infra.epochs.plan import EpochPlan

Kind = Literal[
    "plan",
    "refused",
    "measured",
    "judged",
    "folded",
    "held",
    "decided",
    "delivered",
    "shadowed",
    "position",
    "slot",
    "snapshot",
]
_SCHEMA = pa.schema(
    [
        ("node", pa.string()),
        ("incarnation", pa.int32()),
        ("epoch", pa.int64()),
        ("kind", pa.string()),
        ("body", pa.string()),
    ]
)


class EpochLog:
    """The log of one pipeline: its Delta table, and a local lock file.

    Two processes must not interleave the check for a line and its write.
    """

    def __init__(self, path: str, lock: str) -> None:
        self.path, self.lock = path, lock
        self._lock = FileLock(lock)
        self._read: tuple[DeltaTable | None, int, dict[tuple[str, int], pa.Table]] = None, 0, {}

    def write(self, node: str, incarnation: int, epoch: int, kind: Kind, body: str, attempt: int | None = None) -> None:
        """Add a line, once; with an ``attempt``, if the epoch may have several lines of the kind."""
        line = {"node": node, "incarnation": incarnation, "epoch": epoch, "kind": kind, "body": body}
        app_id, number = f"{node}/{kind}/{incarnation}", epoch
        if attempt is not None:
            app_id, number = f"{app_id}/{epoch}", attempt
        with self._lock:
            append_lines([line], _SCHEMA, self.path, app_id, number)

    def lines(self, node: str, kind: Kind, after: int = 0) -> Mapping[int, str]:
        """Epoch to body of the node's lines of one kind, past epoch ``after``, in order; read without Spark."""
        return dict(self.bodies(node, kind, after))

    def bodies(self, node: str, kind: Kind, after: int = 0) -> list[tuple[int, str]]:
        """The same for kinds with several lines per epoch, in any order."""
        found = self._query(node, after).filter(pc.field("kind") == kind).sort_by("epoch")
        return list(zip(found["epoch"].to_pylist(), found["body"].to_pylist(), strict=True))

    def plan_of(self, node: str, epoch: int) -> EpochPlan | None:
        """The plan of an epoch, refused or not; None if the log does not have it."""
        body = self.lines(node, "plan", epoch - 1).get(epoch)
        return None if body is None else EpochPlan.model_validate_json(body)

    def open_plans(self, node: str, committed: int) -> Mapping[int, EpochPlan]:
        """Plans past epoch ``committed`` that were not refused, by epoch."""
        refused = self.lines(node, "refused", committed)
        plans = self.lines(node, "plan", committed)
        return {e: EpochPlan.model_validate_json(body) for e, body in plans.items() if e not in refused}

    def open_plan(self, node: str, committed: int) -> EpochPlan | None:
        """The first plan past epoch ``committed`` that was not refused."""
        return next(iter(self.open_plans(node, committed).values()), None)

    def next_epoch(self, node: str, committed: int) -> int:
        """The lowest epoch without a plan."""
        return max(self.lines(node, "plan", committed), default=committed) + 1

    def last_incarnation(self, node: str) -> int:
        """The highest incarnation that was ever planned; 0 if none was."""
        return max(self._query(node)["incarnation"].to_pylist(), default=0)

    def _query(self, node: str, after: int = 0) -> pa.Table:
        """The node's lines past epoch ``after``; cached until the log changes."""
        log = open_lines(self.path)
        if log is None:
            return _SCHEMA.empty_table()
        version = log.version()
        read = self._read if self._read[0] is log and self._read[1] == version else (log, version, {})
        self._read = read
        seen = read[2]
        if (node, after) not in seen:
            seen[node, after] = self._lines(log, node, after)
        return seen[node, after]

    def _lines(self, table: DeltaTable, node: str, after: int) -> pa.Table:
        def of_node(files: pa.Table) -> pa.Table:
            if not {"min.node", "max.node", "max.epoch"} <= set(files.column_names):
                return files
            within = (pc.field("min.node") <= node) & (pc.field("max.node") >= node)
            return files.filter(within & (pc.field("max.epoch") > after))

        lines = lines_of(table, self.path, _SCHEMA, of_node)
        return lines.to_table(filter=(pc.field("node") == node) & (pc.field("epoch") > after))

    def measurements(self, node: str) -> list[Mapping[str, Any]]:
        """Measurements of each epoch, oldest first; ``seconds`` include those of the fold that ended with it."""
        folds = {epoch: json.loads(body)["fold"] for epoch, body in self.lines(node, "folded").items()}
        lines = [json.loads(body) for body in self.lines(node, "measured").values()]
        for line in lines:
            if line["epoch"] in folds:
                line["seconds"] = line["seconds"] | {"fold": folds[line["epoch"]]}
        return lines
