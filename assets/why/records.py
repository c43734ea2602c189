"""The evidence of one join as its changelogs have it: each record with its place in the processing order.

A record's place is the epoch of the join that consumed it, and in that the running maximum of timestamps of its own
input and partition (``joins/order.py``), read from two columns of the epoch's slice. Held by
``tests/assets/why/test_walk.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from rivermeet.assets.why.changelogs import Changelogs, Row
from rivermeet.assets.why.expressions import Expressions
from rivermeet.joins.why.evidence import Found, Key, Late, Order, Unknown, is_there, standing
from rivermeet.pipelines import GlobalView, Node, Operation

SIDES = ("left", "right")


@dataclass
class Records:
    """What a computed node was made from; `joins.why.evidence.Evidence`."""

    changelogs: Changelogs
    node: Node
    expressions: Expressions
    _times: dict[tuple[str, int, int], pa.Table] = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        """What the node is computed by."""
        assert self.node.operation is not None
        return self.node.operation

    def stored(self, side: str) -> tuple[str, Node]:
        """The changelog that stands for a side, as plans name it: of a view, that of its left table."""
        node, place = self.operation.inputs[side], side
        while isinstance(node, GlobalView):
            node, place = node.join_spec.left, f"{place}.left"
        return place, node

    def behind(self, side: str, found: Found, trigger: Found) -> tuple[Node, Found | None] | None:
        """What a view joins the record of its left table with, as the trigger saw it; None where a side is no view."""
        node = self.operation.inputs[side]
        if not isinstance(node, GlobalView) or isinstance(node.join_spec.right, GlobalView) or trigger.order is None:
            return None
        view = node.join_spec
        key = self._key(view.key, found, self.stored(side)[1])
        if key is None or isinstance(key, Unknown):
            return view.right, None
        at: Order = (trigger.order[0], math.inf) if self.operation.table_first else trigger.order
        place = self.stored(side)[0].removesuffix(".left") + ".right"
        rows = self.changelogs.of(view.right).of_key(key)
        standing_then = standing([self._found(side, row, place, view.right) for row in rows], at)
        return view.right, standing_then if is_there(standing_then) else None

    def record(self, side: str, partition: int, offset: int) -> Found | None:
        """The record at a place of an input."""
        row = self.changelogs.of(self.stored(side)[1]).at(partition, offset)
        return None if row is None else self._found(side, row)

    def records(self, side: str, key: Key | None) -> Sequence[Found]:
        """All records of a key, by partition and offset."""
        return [self._found(side, row) for row in self.changelogs.of(self.stored(side)[1]).of_key(key)]

    def mapped(self, mapper: Mapping[str, str], record: Found) -> Key | Unknown | None:
        """The key of another table that a record points to."""
        return self._key(mapper, record, self.stored(record.side)[1])

    def _key(self, mapper: Mapping[str, str], record: Found, node: Node) -> Key | Unknown | None:
        seen = {**(record.key or {}), **(record.value or {}), "_timestamp": record.timestamp}
        return self.expressions.key(mapper, pa.Table.from_pylist([seen], self.changelogs.of(node).columns))

    def late(self, key: Key | None) -> Sequence[Late]:
        """Records of a key that the join dropped as late."""
        names = ("side", "key", "timestamp", "partition", "offset", "stream_time", "close", "reason")
        return [Late(**{name: row[name] for name in names}) for row in self.changelogs.of(self.node).late(key)]

    def stream_time(self, partition: int) -> int | None:
        """Stream time (ms) of a partition after all that was consumed."""
        note = self.changelogs.of(self.node).note
        return None if note is None else note.stream_time.get(partition)

    def rebuilt(self) -> list[str]:
        """Inputs that were computed anew since the node has read them: offsets mean other records there."""
        plans = self.changelogs.of(self.node).plans
        if not plans:
            return []
        found: list[str] = []
        for side in self.operation.inputs:
            place, node = self.stored(side)
            note, part = self.changelogs.of(node).note, plans[-1].inputs.get(place)
            if note is not None and part is not None and note.incarnation != part.incarnation:
                found.append(node.name)
        return found

    def _found(self, side: str, row: Row, place: str | None = None, node: Node | None = None) -> Found:
        if place is None or node is None:
            place, node = self.stored(side)
        order = self._order(side, place, node, row["partition"], row["offset"])
        return Found(side, row["key"], row["value"], row["timestamp"], row["partition"], row["offset"], order)

    def _order(self, side: str, place: str, node: Node, partition: int, offset: int) -> Order | None:
        for plan in self.changelogs.of(self.node).plans:
            part = plan.inputs.get(place)
            after = -1 if part is None else part.after.get(partition, -1)
            if part is None or not after < offset <= part.upto.get(partition, -1):
                continue
            asked = place, plan.epoch, partition
            if asked not in self._times:
                self._times[asked] = self.changelogs.of(node).times(partition, after, part.upto[partition])
            times = self._times[asked]
            upto = pc.call_function("less_equal", [times["offset"], pa.scalar(offset, pa.int64())])
            head = pc.call_function("max", [times["timestamp"].filter(upto)]).as_py()
            return plan.epoch, head if head is not None else 0, SIDES.index(side), partition, offset
        return None
