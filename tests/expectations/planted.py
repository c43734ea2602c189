"""A clean epoch of every kind of node, and what is planted in it to break one invariant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipelines import Node
from tests.expectations import nodes
from tests.expectations.nodes import Row

Epoch = dict[str, list[Row]]


def _record(id: int | None, at: int | None, offset: int | None, n: str | None = "x", **more: Any) -> Row:
    key = None if id is None else {"id": id}
    value = None if n is None else {"n": n}
    return {"key": key, "value": value, "timestamp": at, "partition": 0, "offset": offset} | more


def _row(id: int | None, at: int, offset: int, cause: tuple[str, int], **more: Any) -> Row:
    side, record = cause
    trigger = {"side": side, "partition": 0, "offset": record}
    value = {"a": "x", "b": "x"}
    return _record(id, at, offset, epoch=2, trigger=trigger) | {"value": value} | more


def _pair(id: int, offset: int, left: int | None, right: int | None, **more: Any) -> Row:
    cause = ("right", right if right is not None else 9)
    return _row(id, 12, offset, cause, left_offset=left, right_offset=right) | more


def _late(id: int, offset: int, stream_time: int, close: int) -> Row:
    reason = f"closed at {close} ms when stream time was {stream_time} ms"
    more = {"side": "right", "stream_time": stream_time, "close": close, "reason": reason, "epoch": 2}
    return _record(id, close - 3, offset, **more) | {"value": "x"}


def _stored(row: Row) -> Row:
    """A record as a row of the folded table."""
    position = {f"_{name}": row[name] for name in ("timestamp", "partition", "offset")}
    return row["key"] | row["value"] | position


def _stream_stream() -> Epoch:
    left = [_record(1, 10, 0), _record(2, 20, 1), _record(1, 11, 2)]
    right = [_record(1, 12, 0), _record(1, 13, 1), _record(1, 8, 2)]
    rows = [_pair(1, 5, 0, 0), _pair(1, 6, 0, 1)]
    earlier = [_pair(1, 4, 0, 2, epoch=1)]
    changelog = [_pair(1, offset, None, None) for offset in range(4)] + earlier + rows
    bounds = [{"partition": 0, "first_offset": 5}]
    return {"left": left, "right": right, "rows": rows, "earlier": earlier, "bounds": bounds} | {
        "changelog": changelog,
        "late": [],
    }


def _stream_stream_left() -> Epoch:
    epoch = _stream_stream()
    epoch["rows"].append(_pair(2, 7, 1, None))
    epoch["changelog"].append(epoch["rows"][-1])
    return epoch


def _stream_global() -> Epoch:
    rows = [
        _row(1, 10, 0, ("left", 4)),
        _row(1, 11, 1, ("left", 5)),
        _row(None, 12, 2, ("left", 6)),
    ]
    return {"rows": rows, "bounds": [], "changelog": rows}


def _answer(id: int, offset: int, made_for: str | None, cause: tuple[str, int], **more: Any) -> Row:
    made = None if made_for is None else {"n": made_for}
    return _row(id, 10, offset, cause, made_for=made) | more


def _foreign_key() -> Epoch:
    rows = [
        _answer(1, 3, "old", ("left", 0)),
        _answer(1, 4, "new", ("left", 1)),
        _answer(2, 5, None, ("left", 2), value=None),
        _answer(3, 6, "y", ("right", 7)),
        _answer(1, 7, "new", ("right", 7)),
    ]
    changelog = [_answer(9, offset, "z", ("left", offset)) for offset in range(3)] + rows
    table = [_stored(changelog[i]) for i in (2, 6, 7)]
    left = [_record(1, 10, 1, "new"), _record(3, 9, 0, "y")]
    bounds = [{"partition": 0, "first_offset": 3}]
    return {"rows": rows, "left": left, "bounds": bounds, "changelog": changelog, "table": table}


def _foreign_key_inner() -> Epoch:
    """Key 4 lost its partner, then its left row: what an inner join does not answer."""
    epoch = _foreign_key()
    silent = _answer(4, 8, "gone by now", ("left", 3), value=None)
    epoch["rows"].append(silent)
    epoch["changelog"].append(silent)
    return epoch


def _table_table() -> Epoch:
    rows = [
        _row(1, 10, 3, ("left", 0)),
        _row(1, 11, 4, ("right", 1), value=None),
        _row(2, 12, 5, ("left", 2), value=None),
        _row(3, 12, 6, ("right", 2)),
    ]
    changelog = [_row(2, 9, offset, ("left", offset)) for offset in range(3)] + rows
    left, right = [_record(3, 8, 5)], [_record(2, 9, 3), _record(3, 12, 4)]
    bounds = [{"partition": 0, "first_offset": 3}]
    table, before = [_stored(rows[3])], [_stored(changelog[2])]
    return {"rows": rows, "left": left, "right": right, "bounds": bounds, "before": before} | {
        "changelog": changelog,
        "table": table,
    }


def _source() -> Epoch:
    rows = [_record(1, 5, 0, epoch=1), _record(2, 5, 1, epoch=1), _record(2, 6, 2, None, epoch=1)]
    return {"rows": rows, "bounds": [], "changelog": rows, "table": [_stored(rows[0])]}


CLEAN: dict[str, tuple[Node, Callable[[], Epoch]]] = {
    "seen": (nodes.seen, _stream_stream_left),
    "seen_inner": (nodes.seen_inner, _stream_stream),
    "seen_outer": (nodes.seen_outer, _stream_stream_left),
    "named": (nodes.named, _stream_global),
    "owned": (nodes.owned, _foreign_key),
    "owned_inner": (nodes.owned_inner, _foreign_key_inner),
    "both": (nodes.both, _table_table),
    "both_inner": (nodes.both_inner, _table_table),
    "orders": (nodes.orders, _source),
    "names": (nodes.names, _source),
    "clicks": (nodes.clicks, _source),
}


@dataclass(frozen=True)
class Planted:
    """A change to a clean epoch that ``breaks`` an invariant."""

    breaks: str
    node: str
    what: str
    change: Callable[[Epoch], object]


def _set(relation: str, index: int, **fields: Any) -> Callable[[Epoch], object]:
    return lambda epoch: epoch[relation][index].update(fields)


def _add(relation: str, row: Row) -> Callable[[Epoch], object]:
    return lambda epoch: epoch[relation].append(row)


def _without(relation: str, index: int) -> Callable[[Epoch], object]:
    return lambda epoch: epoch[relation].pop(index)


_LEFT = {"side": "left", "partition": 0, "offset": 0}
_ALONE = "no_spurious_one_sided_row"
_HASH = "foreign_key_hash"
_FOLD = "fold_equals_table"

PLANTED: tuple[Planted, ...] = (
    Planted(_ALONE, "seen", "paired and alone", _add("rows", _pair(1, 8, 0, None))),
    Planted(_ALONE, "seen", "alone twice", _add("rows", _pair(2, 8, 1, None))),
    Planted(_ALONE, "seen", "alone earlier", _add("earlier", _pair(2, 3, 1, None))),
    Planted(_ALONE, "seen_outer", "right, paired earlier", _add("rows", _pair(1, 8, None, 2))),
    Planted("pair_in_window", "seen", "right too late", _set("right", 1, timestamp=14)),
    Planted("pair_in_window", "seen", "right too early", _set("right", 0, timestamp=7)),
    Planted("pair_in_window", "seen", "other key", _set("right", 1, key={"id": 2})),
    Planted("pair_in_window", "seen", "result's key", _set("rows", 0, key={"id": 2})),
    Planted("pair_in_window", "seen", "no such record", _without("left", 0)),
    Planted("no_duplicate_pair", "seen", "twice now", _add("rows", _pair(1, 8, 0, 0))),
    Planted("no_duplicate_pair", "seen", "once earlier", _add("earlier", _pair(1, 3, 0, 1))),
    Planted("alone_only_on_outer_sides", "seen_inner", "left", _add("rows", _pair(2, 7, 1, None))),
    Planted("alone_only_on_outer_sides", "seen", "right", _add("rows", _pair(1, 8, None, 5))),
    Planted("alone_only_on_outer_sides", "seen_outer", "none", _add("rows", _pair(1, 8, None, None))),
    Planted("stream_row_has_value", "seen", "pair", _set("rows", 0, value=None)),
    Planted("stream_row_has_value", "named", "look-up", _set("rows", 0, value=None)),
    Planted(
        "rows_come_from_facts",
        "named",
        "update",
        _set("rows", 0, trigger=_LEFT | {"side": "right"}),
    ),
    Planted("rows_come_from_facts", "named", "nothing", _set("rows", 0, trigger=None)),
    Planted(_HASH, "owned", "stale", _set("rows", 4, made_for={"n": "old"})),
    Planted(_HASH, "owned", "older row without", _set("rows", 0, made_for=None)),
    Planted(_HASH, "owned", "last row without", _set("rows", 4, made_for=None)),
    Planted(_HASH, "owned", "left row gone", _without("left", 0)),
    Planted(_HASH, "owned", "tombstone, left row there", _set("rows", 3, value=None)),
    Planted(_HASH, "owned", "value null, not NULL", _set("left", 1, value={"n": None})),
    Planted(_HASH, "owned_inner", "stale", _set("left", 0, value={"n": "newer"})),
    Planted(_HASH, "owned_inner", "left row gone", _without("left", 1)),
    Planted("live_keys", "both", "row without left", _without("left", 0)),
    Planted("live_keys", "both_inner", "row without right", _without("right", 1)),
    Planted("live_keys", "both", "tombstone, left row there", _add("left", _record(2, 9, 6))),
    Planted("tombstone_ends_a_row", "both", "none before", _without("before", 0)),
    Planted("tombstone_ends_a_row", "both", "ended in this epoch", _set("rows", 0, value=None)),
    Planted(_FOLD, "owned", "row missing", _without("table", 0)),
    Planted(_FOLD, "owned", "row too many", _add("table", {"id": 2, "_offset": 5})),
    Planted(_FOLD, "owned", "value", _set("table", 1, a="other")),
    Planted(_FOLD, "owned", "null", _set("table", 1, b=None)),
    Planted(_FOLD, "owned", "position", _set("table", 1, _offset=4)),
    Planted(_FOLD, "orders", "tombstone ignored", _add("table", {"id": 2, "n": "x", "_offset": 1})),
    Planted("unique_keys", "orders", "copy", lambda e: e["table"].append(e["table"][0])),
    Planted("unique_keys", "owned", "copy", lambda e: e["table"].append(e["table"][1])),
    Planted("dense_offsets", "seen", "hole", _without("rows", 1)),
    Planted("dense_offsets", "named", "double", _set("rows", 1, offset=0)),
    Planted("dense_offsets", "orders", "not at 0", _without("rows", 0)),
    Planted("dense_offsets", "owned", "overlap", _set("bounds", 0, first_offset=4)),
    Planted("dense_changelog", "seen", "hole", _without("changelog", 3)),
    Planted("dense_changelog", "named", "not at 0", _without("changelog", 0)),
    Planted("dense_changelog", "owned", "double", lambda e: e["changelog"].append(e["changelog"][0])),
    Planted("record_shape", "seen", "no time", _set("rows", 0, timestamp=None)),
    Planted("record_shape", "named", "no such partition", _set("rows", 0, partition=2)),
    Planted("record_shape", "orders", "no key", _set("rows", 0, key=None)),
    Planted("one_row_per_cause", "named", "fact", _set("rows", 1, trigger=_LEFT | {"offset": 4})),
    Planted("one_row_per_cause", "owned", "left", _set("rows", 1, trigger=_LEFT)),
    Planted("late_share", "seen", "one of six", _add("late", _late(1, 3, 20, 15))),
    Planted("late_share", "seen_inner", "two of six", lambda e: e["late"].extend([_late(1, 3, 20, 15)] * 2)),
)
