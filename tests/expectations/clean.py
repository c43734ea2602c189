"""A clean epoch of every kind of node: what all its invariants pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rivermeet.pipelines import Node
from tests.expectations import nodes
from tests.expectations.nodes import Row

Epoch = dict[str, list[Row]]


def record(key: Any, at: int | None, offset: int | None, n: str | None = "x", **more: Any) -> Row:
    """A record of an input: ``key`` is an ``id``, or a name."""
    column = "who" if isinstance(key, str) else "id"
    value = None if n is None else {"n": n}
    return {
        "key": None if key is None else {column: key},
        "value": value,
        "timestamp": at,
        "partition": 0,
        "offset": offset,
    } | more


def row(key: Any, at: int, offset: int, cause: tuple[str, int], a: Any = "x", b: Any = None, **more: Any) -> Row:
    """A result of the second epoch, made by record ``cause``."""
    side, offset_of = cause
    key = {"id": key} if isinstance(key, int) else key
    trigger = {"side": side, "partition": 0, "offset": offset_of}
    place = {"timestamp": at, "partition": 0, "offset": offset, "epoch": 2, "trigger": trigger}
    return {"key": key, "value": {"a": a, "b": b}} | place | more


def ended(result: Row) -> Row:
    """The same place, and no row any more."""
    return result | {"value": None}


def pair(key: int, at: int, offset: int, left: int | None, right: int | None, by: int = 2, **more: Any) -> Row:
    """A row of a window join, made by a right record."""
    return row(key, at, offset, ("right", by), left_offset=left, right_offset=right, **more)


def late(key: int, offset: int, stream_time: int, close: int) -> Row:
    """A record that was dropped."""
    reason = f"closed at {close} ms when stream time was {stream_time} ms"
    more = {"side": "right", "stream_time": stream_time, "close": close, "reason": reason, "epoch": 2}
    return record(key, close - 3, offset, **more) | {"value": "x"}


def stored(result: Row) -> Row:
    """A record as a row of the folded table."""
    return result["key"] | result["value"] | {f"_{c}": result[c] for c in ("timestamp", "partition", "offset")}


def _folded(epoch: Epoch, was: Sequence[Row], before: int = 10) -> Epoch:
    """An epoch of a table, folded on top of ``was``: old rows of its keys."""
    last = {str(r["key"]): r for r in epoch["rows"]}
    now = [stored(r) for r in last.values() if r["value"] is not None]
    sizes = [{"before": before, "after": before + len(now) - len(was)}]
    first = [{"partition": 0, "first_offset": min(r["offset"] for r in epoch["rows"])}]
    epoch |= {"table": now, "now": now, "before": [*was], "was": [*was], "sizes": sizes, "bounds": first}
    return epoch | {"changelog": epoch["rows"]}


def _old(key: Any, a: Any, b: Any = None) -> Row:
    return stored(row(key, 1, 0, ("left", 0), a, b))


def _window(how: str) -> Epoch:
    """Stream time goes from 11 to 20: left 1 closes at 13 and stays alone, left 2 stays open."""
    opened = {
        "left": [record(1, 10, 0), record(2, 9, 1)],
        "right": [record(1, 9, 0)],
    }
    new = {
        "left": [record(2, 20, 2), record(1, 15, 3, None)],
        "right": [record(1, 12, 1), record(1, 13, 2)],
    }
    rows = [pair(1, 12, 5, 0, 1, by=1), pair(1, 13, 6, 0, 2)]
    if how != "inner":
        rows.append(pair(2, 9, 7, 1, None))
    epoch: Epoch = {"rows": rows, "changelog": rows, "earlier": [pair(1, 10, 4, 0, 0, epoch=1)], "late": []}
    for side in ("left", "right"):
        epoch[side] = [r | {"is_new": False} for r in opened[side]] + [r | {"is_new": True} for r in new[side]]
        epoch[f"new_{side}"] = new[side]
    times, bounds = [{"partition": 0, "stream_time": 11}], [{"partition": 0, "first_offset": 5}]
    return epoch | {"times": times, "bounds": bounds}


def _window_of_itself() -> Epoch:
    """Each record meets itself, then what came before it: the left copy first."""
    new = [record(1, 10, 0), record(1, 12, 1), record(1, 20, 2, None)]
    by = {0: [(0, 0, "right")], 1: [(1, 0, "left"), (0, 1, "right"), (1, 1, "right")]}
    pairs = [(left, right, side, at) for at, found in by.items() for left, right, side in found]
    rows = [
        row(1, 10 + 2 * at, i, (side, at), left_offset=left, right_offset=right)
        for i, (left, right, side, at) in enumerate(pairs)
    ]
    reach = [r | {"is_new": True} for r in new]
    sides = {"left": reach, "right": reach, "new_left": new, "new_right": new}
    return {"rows": rows, "changelog": rows, "earlier": [], "late": [], "times": [], "bounds": []} | sides


def _window_later() -> Epoch:
    """A window that begins after its left record: 1 to 3 ms later."""
    sides = {"left": [record(1, 10, 0), record(1, 11, 1)], "right": [record(1, 11, 0), record(1, 10, 1)]}
    rows = [row(1, 11, 0, ("right", 0), left_offset=0, right_offset=0)]
    epoch: Epoch = {"rows": rows, "changelog": rows, "earlier": [], "late": [], "times": [], "bounds": []}
    for side, new in sides.items():
        epoch |= {side: [r | {"is_new": True} for r in new], f"new_{side}": new}
    return epoch


def _global(how: str) -> Epoch:
    facts = [record(1, 10, 4, "k"), record(1, 11, 5, "j"), record(None, 12, 6, "k"), record(1, 13, 7, None)]
    rows = [
        row(1, 10, 0, ("left", 4), "k", "kay"),
        row(1, 11, 1, ("left", 5), "j"),
        row(None, 12, 2, ("left", 6), "k", "kay"),
    ]
    if how == "inner":
        rows = [rows[0], rows[2] | {"offset": 1}]
    news = [record("k", 12, 3, "kay")]
    return {"rows": rows, "changelog": rows, "new_left": facts, "new_right": news, "right": news} | {
        "right_before": [record("k", 2, 1, "old kay")],
        "unread": [],
        "bounds": [],
        "late": [],
    }


def _global_interleaved() -> Epoch:
    """The table's update at 12 comes before the fact at 12 no more: a tie goes to the left."""
    rows = [
        row(1, 10, 0, ("left", 4), "k", "old kay"),
        row(1, 11, 1, ("left", 5), "j"),
        row(None, 12, 2, ("left", 6), "k", "old kay"),
    ]
    return _global("left") | {"rows": rows, "changelog": rows}


def _looked(how: str) -> Epoch:
    """The update at 15 lies between both facts of key 1; key 2 is in no table."""
    facts = [record(1, 10, 0), record(1, 20, 1), record(2, 20, 2), record(1, 21, 3, None)]
    rows = [row(1, 10, 0, ("left", 0), b="old"), row(1, 20, 1, ("left", 1), b="new"), row(2, 20, 2, ("left", 2))]
    rows = rows[:2] if how == "inner" else rows
    update = record(1, 15, 1, "new")
    return {"rows": rows, "changelog": rows, "new_left": facts, "new_right": [update], "bounds": []} | {
        "right_before": [record(1, 5, 0, "old")],
        "late": [],
    }


def _priced() -> Epoch:
    """The second fact is older than the update that came before it."""
    facts = [record(1, 16, 0), record(1, 12, 1), record(2, 17, 2)]
    rows = [row(1, 16, 0, ("left", 0), b="new"), row(1, 12, 1, ("left", 1), b="old"), row(2, 17, 2, ("left", 2))]
    update = record(1, 15, 1, "new")
    history = [record(1, 5, 0, "old", is_new=False), update | {"is_new": True}]
    return {"rows": rows, "changelog": rows, "new_left": facts, "new_right": [update], "bounds": []} | {
        "right": history
    }


def _answer(key: int, offset: int, made_for: str | None, cause: tuple[str, int], b: str | None = None) -> Row:
    made = None if made_for is None else {"n": made_for}
    result = row(key, 13, offset, cause, made_for, b, made_for=made)
    return result if made_for is not None else ended(result)


def _foreign_key(how: str) -> Epoch:
    """1 points to 'ab', then to 'a'; 2 is deleted; 'a' is renamed. 4 points to 'ab' all the time."""
    rows = [
        _answer(1, 3, "ab", ("left", 0), "both"),
        _answer(1, 4, "a", ("left", 1), "old"),
        _answer(2, 5, None, ("left", 2)),
        _answer(1, 6, "a", ("right", 7), "new"),
        _answer(3, 7, "a", ("right", 7), "new"),
    ]
    changes = [record(1, 10, 0, "ab"), record(1, 11, 1, "a"), record(2, 12, 2, None)]
    before = [record(2, 1, 0, "c"), record(3, 1, 0, "a"), record(4, 1, 0, "ab")]
    was = [_old(2, "c", "sea"), _old(3, "a", "old")]
    if how == "inner":
        # 5 lost its partner, then its left row: what an inner join does not answer.
        changes = [*changes, record(5, 12, 3, "gone"), record(5, 12, 4, None)]
        rows.insert(3, _answer(5, 6, "gone", ("left", 3)) | {"value": None})
        rows[4:] = [r | {"offset": r["offset"] + 1} for r in rows[4:]]
        before, was = [*before, record(5, 1, 0, "a")], [*was, _old(5, "a", "old")]
    news = [record("a", 13, 7, "new")]
    others = [record("ab", 1, 5, "both"), record("c", 1, 6, "sea")]
    epoch: Epoch = {"rows": rows, "new_left": changes, "new_right": news, "left_before": before}
    left = [record(1, 11, 1, "a"), record(3, 1, 0, "a")]
    return _folded(epoch | {"left": left, "right": [*news, *others]}, was)


def _many() -> Epoch:
    """1 is re-pointed from a to b, and c is renamed; 3 stays with a."""

    def key(who: str, id: int) -> Row:
        return {"who": who, "id": id}

    rows = [
        ended(row(key("a", 1), 10, 3, ("right", 0))),
        row(key("b", 1), 10, 4, ("right", 0), "bee", "b"),
        row(key("c", 2), 12, 5, ("left", 3), "sea", "c"),
    ]
    repointed, renamed = record(1, 10, 0, "b"), record("c", 12, 3, "sea")
    epoch: Epoch = {
        "rows": rows,
        "new_left": [renamed],
        "new_right": [repointed],
        "left": [renamed, record("a", 1, 0, "ay"), record("b", 1, 1, "bee")],
        "right": [repointed, record(2, 1, 0, "c")],
        "left_before": [record("c", 1, 2, "see"), record("a", 1, 0, "ay"), record("b", 1, 1, "bee")],
        "right_before": [record(1, 1, 0, "a"), record(2, 1, 0, "c"), record(3, 1, 0, "a")],
    }
    was = [_old(key("a", 1), "ay", "a"), _old(key("c", 2), "see", "c")]
    return _folded(epoch, was)


def _tables(how: str) -> Epoch:
    """2 loses its left row, 3 gets a right one; in a left join 1 comes and goes besides."""
    lefts, news = [record(2, 12, 2, None)], [record(3, 12, 2, "y")]
    two, three = row(2, 12, 3, ("left", 2)), row(3, 12, 4, ("right", 2), b="y")
    rows, was = [ended(two), three], [_old(2, "x", "y")]
    if how != "inner":
        was = [*was, _old(3, "x")]
    if how == "outer":
        rows[0] = two | {"value": {"a": None, "b": "y"}}
    if how == "left":
        lefts = [record(1, 10, 0), record(1, 11, 1, None), *lefts]
        first = row(1, 10, 3, ("left", 0))
        rows = [first, ended(first | {"offset": 4, "trigger": first["trigger"] | {"offset": 1}})] + [
            r | {"offset": r["offset"] + 2} for r in rows
        ]
    epoch: Epoch = {"rows": rows, "new_left": lefts, "new_right": news, "left": [record(3, 8, 5)]}
    return _folded(epoch | {"right": [record(2, 9, 1, "y"), *news]}, was)


def _weekly() -> Epoch:
    """The window of 10 to 20, and the one before it."""

    def window(start: int) -> Row:
        return {"id": 1, "window_start": start, "window_end": start + 10}

    def counted(start: int, at: int, offset: int, c: int) -> Row:
        return record(1, at, offset) | {"key": window(start), "value": {"c": c, "t": 1.0}}

    rows = [row(window(10), 12, 1, ("left", 1), 1, 2)]
    left, old = [counted(10, 12, 1, 1)], [counted(0, 7, 0, 2)]
    epoch: Epoch = {"rows": rows, "new_left": left, "new_right": left, "left": left, "right": old}
    return _folded(epoch, [])


def _windowed() -> Epoch:
    """Stream time 12 closes the window of 0 to 10 (grace 2) for the record at 1."""

    def counted(start: int, at: int, offset: int, cause: int, c: int) -> Row:
        key = {"id": 1, "window_start": start, "window_end": start + 10}
        return row(key, at, offset, ("left", cause)) | {"value": {"c": c, "t": float(c)}}

    rows = [counted(0, 7, 1, 1, 2), counted(10, 12, 2, 2, 1)]
    new = [record(1, 7, 1), record(1, 12, 2), record(1, 1, 3)]
    reach = [record(1, 3, 0, is_new=False), *(r | {"is_new": True} for r in new)]
    old = {"id": 1, "window_start": 0, "window_end": 10, "c": 1, "t": 1.0}
    epoch: Epoch = {"rows": rows, "left": reach, "new_left": new, "times": [{"partition": 0, "stream_time": 5}]}
    return _folded(epoch, [old]) | {"late": []}


def _sliding() -> Epoch:
    """The windows of records at 20 and 25."""

    def counted(start: int, at: int, offset: int, cause: int, c: int) -> Row:
        key = {"id": 1, "window_start": start, "window_end": start + 11}
        return row(key, at, offset, ("left", cause)) | {"value": {"c": c}}

    rows = [counted(10, 20, 0, 0, 1), counted(15, 25, 1, 1, 2), counted(21, 25, 2, 1, 1)]
    new = [record(1, 20, 0), record(1, 25, 1)]
    epoch: Epoch = {"rows": rows, "left": [r | {"is_new": True} for r in new], "new_left": new, "times": []}
    return _folded(epoch, []) | {"late": []}


def _grouped() -> Epoch:
    """1 moves from group b to group a, where 2 is; 3 stays in b."""

    def group(who: str, offset: int, c: int, m: float) -> Row:
        return row({"who": who}, 10, offset, ("left", 0)) | {"value": {"c": c, "m": m}}

    rows = [group("b", 0, 1, 3.0), group("a", 1, 2, 1.5)]
    was = [{"who": "b", "c": 2, "m": 2.0}, {"who": "a", "c": 1, "m": 2.0}]
    moved = record(1, 10, 0, "a")
    left = [moved, record(2, 1, 1, "a"), record(3, 1, 2, "b")]
    epoch: Epoch = {"rows": rows, "new_left": [moved], "left": left}
    return _folded(epoch, was)


def _source() -> Epoch:
    rows = [record(1, 5, 0, epoch=1), record(2, 5, 1, epoch=1), record(2, 6, 2, None, epoch=1)]
    return _folded({"rows": rows}, [], before=0)


def _named_source() -> Epoch:
    rows = [record("k", 5, 0, epoch=1), record("j", 5, 1, epoch=1), record("j", 6, 2, None, epoch=1)]
    return _folded({"rows": rows}, [], before=0)


def _filtered() -> Epoch:
    new = [record(1, 5, 0), record(2, 3, 1), record(2, 6, 2, "")]
    rows = [record(1, 5, 0), record(2, 3, 1)]
    triggers = [{"side": "left", "partition": 0, "offset": i} for i in range(2)]
    rows = [r | {"epoch": 2, "trigger": t} for r, t in zip(rows, triggers, strict=True)]
    return {"rows": rows, "changelog": rows, "new_left": new, "bounds": []}


def _placed(epoch: Epoch) -> Epoch:
    """The same of a node that keeps its topic's partitions: keys of ``{before}`` lie in partition 0."""
    columns = [column for column in ("id", "window_start", "window_end") if any(column in r for r in epoch["before"])]
    placed = [{"key": {column: r[column] for column in columns}, "partition": 0} for r in epoch["before"]]
    return epoch | {"placed": placed}


CLEAN: dict[str, tuple[Node, Callable[[], Epoch]]] = {
    "seen": (nodes.seen, lambda: _window("left")),
    "seen_inner": (nodes.seen_inner, lambda: _window("inner")),
    "seen_outer": (nodes.seen_outer, lambda: _window("outer")),
    "seen_itself": (nodes.seen_itself, _window_of_itself),
    "seen_later": (nodes.seen_later, _window_later),
    "named": (nodes.named, lambda: _global("left")),
    "named_inner": (nodes.named_inner, lambda: _global("inner")),
    "named_then": (nodes.named_then, _global_interleaved),
    "looked": (nodes.looked, lambda: _looked("left")),
    "looked_inner": (nodes.looked_inner, lambda: _looked("inner")),
    "priced": (nodes.priced, _priced),
    "owned": (nodes.owned, lambda: _foreign_key("left")),
    "owned_inner": (nodes.owned_inner, lambda: _foreign_key("inner")),
    "pets": (nodes.pets, _many),
    "both": (nodes.both, lambda: _tables("left")),
    "both_inner": (nodes.both_inner, lambda: _tables("inner")),
    "both_outer": (nodes.both_outer, lambda: _tables("outer")),
    "weekly": (nodes.weekly, _weekly),
    "counted": (nodes.counted, _windowed),
    "slid": (nodes.slid, _sliding),
    "grouped": (nodes.grouped, _grouped),
    "kept": (nodes.kept, _filtered),
    "orders": (nodes.orders, _source),
    "names": (nodes.names, _named_source),
    "clicks": (nodes.clicks, _source),
    "items": (nodes.items, lambda: _source() | {"placed": [{"key": {"id": 1}, "partition": 0}]}),
    "returned": (nodes.returned, lambda: _window("left")),
    "itemised": (nodes.itemised, lambda: _looked("left")),
    "rated": (nodes.rated, _priced),
    "tagged": (nodes.tagged, lambda: _placed(_tables("left"))),
    "sold": (nodes.sold, lambda: _placed(_windowed())),
}
