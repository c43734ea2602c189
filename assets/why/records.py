"""The evidence of one join as its changelogs have it: each record with its place in the processing order.

A record's place is the epoch of the join that consumed it, and in that the running maximum of timestamps of its own
input and partition (``joins/order.py``), read from two columns of the epoch's slice. Held by
``tests/assets/why/test_walk.py``.

What declared expressions give of records: columns are looked up, all else is asked of Spark where that may be.

    tail_number              the record's own column
    `tail_number`            the same
    concat(carrier, flight)  evaluated by the engine with --engine, else unknown

Held by ``tests/assets/why/test_expressions.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rivermeet.assets.why.changelogs import Changelogs, Row
from rivermeet.joins.why.evidence import Found, Key, Order, Unknown, is_there, show_key
from rivermeet.joins.why.replay import time_decides, values_of
from rivermeet.pipelines import GlobalView, Node, Operation, limits
from rivermeet.pipelines.plural import pluralize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIDES = ("left", "right")
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_]\w*))\s*")


@dataclass(frozen=True)
class Expressions:
    """Evaluates expressions over records' columns; ``session`` is None where Spark is not to be asked."""

    session: Callable[[], SparkSession] | None

    def of(self, asked: Mapping[str, Any], records: pa.Table) -> list[dict[str, Any]]:
        """What named expressions give of each record, whose columns they see."""
        columns = {name: _column(sql, records) for name, sql in asked.items()}
        others = {name: sql for name, sql in asked.items() if columns[name] is None}
        found = {name: records[column].to_pylist() for name, column in columns.items() if column is not None}
        if others and self.session is not None and all(isinstance(sql, str) for sql in others.values()):
            made = self.session().createDataFrame(records).selectExpr(*others.values()).toArrow()
            found |= {name: made[at].to_pylist() for at, name in enumerate(others)}
        else:
            found |= {name: [Unknown(str(sql))] * len(records) for name, sql in others.items()}
        return [{name: found[name][at] for name in asked} for at in range(len(records))]


def _column(sql: Any, records: pa.Table) -> str | None:
    """The column that an expression is, in whatever case; None where it is more than that."""
    match = _COLUMN.fullmatch(sql) if isinstance(sql, str) else None
    if match is None:
        return None
    wanted = (match[1].replace("``", "`") if match[1] else match[2]).lower()
    return next((name for name in records.column_names if name.lower() == wanted), None)


@dataclass
class Records:
    """What a computed node was made from; `joins.why.evidence.Evidence`."""

    changelogs: Changelogs
    node: Node
    expressions: Expressions
    cut: dict[str, None] = field(default_factory=dict)
    """Sentences about keys whose records are not all replayed."""
    _times: dict[tuple[str, int, int], pa.Table] = field(default_factory=dict)
    _of_key: dict[tuple[str, Any], list[Found]] = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        """What the node is computed by."""
        assert self.node.operation is not None
        return self.node.operation

    def resolve(self, side: str) -> tuple[str, Node]:
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
        (cells,) = self.evaluate(side, view.key, [found])
        if any(cell is None or isinstance(cell, Unknown) for cell in cells.values()):
            return view.right, None
        at: Order = (trigger.order[0], math.inf) if self.operation.table_first else trigger.order
        place = self.resolve(side)[0].removesuffix(".left") + ".right"
        rows = [self._to_found(side, row, place, view.right) for row in self.changelogs.of(view.right).of_key(cells)]
        seen = [(one.order, one) for one in rows if one.order is not None and one.order <= at]
        last = max(seen, key=lambda pair: pair[0], default=(None, None))[1]
        return view.right, last if is_there(last) else None

    def record(self, side: str, partition: int, offset: int) -> Found | None:
        """The record at a place of an input."""
        row = self.changelogs.of(self.resolve(side)[1]).at(partition, offset)
        return None if row is None else self._to_found(side, row)

    def records(self, side: str, key: Key) -> Sequence[Found]:
        """Records of a key, by partition and offset: the newest `limits.REPLAYED_RECORDS`."""
        asked = side, values_of(key)
        if asked not in self._of_key:
            node = self.resolve(side)[1]
            rows = self.changelogs.of(node).of_key(key)
            newest = rows[-limits.REPLAYED_RECORDS :]
            if len(newest) < len(rows):
                says = f"'{node.name}' has {pluralize(len(rows), 'record')} of {show_key(key)}; only the newest"
                self.cut[f"{says} {len(newest)} are looked at"] = None
            self._of_key[asked] = [self._to_found(side, row) for row in newest]
        return self._of_key[asked]

    def evaluate(self, side: str, asked: Mapping[str, Any], records: Sequence[Found]) -> list[dict[str, Any]]:
        """What expressions give of records of one side, by name."""
        seen = [{**(one.key or {}), **(one.value or {}), "_timestamp": one.timestamp} for one in records]
        columns = self.changelogs.of(self.resolve(side)[1]).columns
        return self.expressions.of(asked, pa.Table.from_pylist(seen, columns))

    def stream_time(self, side: str, partition: int, before: Order) -> int | None:
        """The highest timestamp (ms) of an input's partition that was consumed before a place in the order."""
        place, node = self.resolve(side)
        epoch, *within = before
        found: list[int] = []
        for read, after, upto in self._bounds(place, partition):
            if read > epoch:
                break
            offsets, heads = self._heads(place, node, partition, after, upto)
            count = len(heads)
            if read == epoch and within:
                head, other, at, offset = within
                # Equal heads go by side, partition and offset.
                own = SIDES.index(side), partition
                count = int(np.searchsorted(heads, head, "right" if own < (other, at) else "left"))
                if own == (other, at):
                    count = int(np.searchsorted(offsets, offset))
            if count:
                found.append(int(heads[count - 1]))
        return max(found, default=None)

    def late(self, key: Key | None) -> Sequence[Row]:
        """Records of a key that the join dropped as late; without a window ``stream_time`` and ``close`` are None."""
        names = ("side", "key", "timestamp", "partition", "offset", "stream_time", "close", "reason")
        return [{name: row[name] for name in names} for row in self.changelogs.of(self.node).late(key)]

    def find_rebuilt(self) -> list[str]:
        """Inputs that were recomputed since the node has read them: offsets mean other records there."""
        found: list[str] = []
        for plan in self.changelogs.of(self.node).plans[-1:]:
            for place, node in map(self.resolve, self.operation.inputs):
                note, part = self.changelogs.of(node).note, plan.inputs.get(place)
                if note is not None and part is not None and note.incarnation != part.incarnation:
                    found.append(node.name)
        return found

    def _to_found(self, side: str, row: Row, place: str | None = None, node: Node | None = None) -> Found:
        if place is None or node is None:
            place, node = self.resolve(side)
        order = self._order(side, place, node, row["partition"], row["offset"])
        return Found(side, row["key"], row["value"], row["timestamp"], row["partition"], row["offset"], order)

    def _order(self, side: str, place: str, node: Node, partition: int, offset: int) -> Order | None:
        for epoch, after, upto in self._bounds(place, partition):
            if after < offset <= upto:
                offsets, heads = self._heads(place, node, partition, after, upto)
                at = int(np.searchsorted(offsets, offset, "right"))
                return epoch, int(heads[at - 1]) if at else 0, SIDES.index(side), partition, offset
        return None

    def _bounds(self, place: str, partition: int) -> Iterator[tuple[int, int, int]]:
        """Each epoch that read a partition of an input: the last offset before it, and its own last one."""
        for plan in self.changelogs.of(self.node).plans:
            part = plan.inputs.get(place)
            after, upto = (-1, -1) if part is None else (part.after.get(partition, -1), part.upto.get(partition, -1))
            if after < upto:
                yield plan.epoch, after, upto

    def _heads(self, place: str, node: Node, partition: int, after: int, upto: int) -> tuple[Any, Any]:
        """Offsets in ``(after, upto]``, and the highest timestamp from the first to each."""
        timed = time_decides(self.operation)
        # Where time decides, all epochs are asked for: they are read at once.
        asked = place, partition, -1 if timed else after
        if asked not in self._times:
            last = max(upto for _, _, upto in self._bounds(place, partition)) if timed else upto
            self._times[asked] = self.changelogs.of(node).times(partition, asked[2], last).sort_by("offset")
        offsets, times = (self._times[asked][name].to_numpy() for name in ("offset", "timestamp"))
        first, last = np.searchsorted(offsets, [after, upto], "right")
        return offsets[first:last], np.maximum.accumulate(times[first:last])
