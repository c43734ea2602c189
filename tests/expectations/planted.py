"""What is planted in a clean epoch to break one invariant, with the number of the requirement that it goes against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.expectations.clean import Epoch, ended, late, pair, record, row
from tests.expectations.nodes import Row

Change = Callable[[Epoch], object]


@dataclass(frozen=True)
class Planted:
    """A change to a clean epoch that ``breaks`` an invariant, and ``also`` those that cannot hold either.

    ``about``: numbers of the requirements that it goes against.
    """

    breaks: str
    node: str
    what: str
    change: Change
    about: tuple[int, ...] = ()
    also: frozenset[str] = frozenset()


def plant(breaks: str, node: str, what: str, change: Change, *about: int, also: str = "") -> Planted:
    return Planted(breaks, node, what, change, about, frozenset(also.split()))


def _set(relation: str, index: int, **fields: Any) -> Change:
    return lambda epoch: epoch[relation][index].update(fields)


def _add(relation: str, row: Row) -> Change:
    return lambda epoch: epoch[relation].append(row)


def _without(relation: str, index: int) -> Change:
    return lambda epoch: epoch[relation].pop(index)


def _all(*changes: Change) -> Change:
    return lambda epoch: [change(epoch) for change in changes]


def _arrives(side: str, given: Row) -> Change:
    """A record that the epoch consumed."""
    return _all(_add(side, given | {"is_new": True}), _add(f"new_{side}", given))


def _emitted(index: int, table: int, a: Any, b: Any) -> Change:
    """Another value of a row, everywhere."""
    value = {"a": a, "b": b}
    return _all(
        *(_set(relation, index, value=value) for relation in ("rows", "changelog")),
        *(_set(relation, table, **value) for relation in ("table", "now")),
    )


def _aggregated(table: int, **value: Any) -> Change:
    """Another value of a group, everywhere."""
    everywhere = [_set(relation, table, **value) for relation in ("table", "now")]
    return _all(_of_changelog(table, **value), *everywhere)


def _of_changelog(index: int, **value: Any) -> Change:
    return lambda epoch: epoch["changelog"][index]["value"].update(value)


def _cause(side: str, offset: int) -> Row:
    return {"side": side, "partition": 0, "offset": offset}


_ALONE, _HASH, _FOLD, _BATCH = "no_spurious_one_sided_row", "foreign_key_hash", "fold_equals_table", "equals_batch_join"
_PAIRS, _LONELY, _ORDER = "every_pair_in_window", "every_lonely_record", "processing_order"
_ROW, _NEWEST, _LOADED, _SIZE = "row_of_every_record", "newest_version", "loaded_first", "table_size"
_WINDOW, _HELD = "row_of_every_window", "aggregate_of_window"
_PLACE, _MEET = "one_partition_per_key", "equal_keys_meet"

PLANTED: tuple[Planted, ...] = (
    plant(_ALONE, "seen", "paired and alone", _add("rows", pair(1, 10, 8, 0, None)), 37),
    plant(_ALONE, "seen", "alone twice", _add("rows", pair(2, 9, 8, 1, None)), 38),
    plant(_ALONE, "seen", "alone earlier", _add("earlier", pair(2, 9, 3, 1, None)), 38),
    plant(_ALONE, "seen_outer", "right, paired earlier", _add("rows", pair(1, 9, 8, None, 0)), 37, 53),
    plant("pair_in_window", "seen", "right too late", _set("right", 2, timestamp=14), 25),
    plant("pair_in_window", "seen", "right too early", _set("right", 1, timestamp=7), 25),
    plant("pair_in_window", "seen", "other key", _set("right", 2, key={"id": 2}), 25),
    plant("pair_in_window", "seen", "result's key", _set("rows", 0, key={"id": 2})),
    plant("pair_in_window", "seen", "no such record", _without("left", 0)),
    plant("pair_in_window", "seen_later", "before the window", _set("left", 0, timestamp=11)),
    plant("no_duplicate_pair", "seen", "twice now", _add("rows", pair(1, 13, 8, 0, 2)), 55),
    plant("no_duplicate_pair", "seen", "once earlier", _add("earlier", pair(1, 12, 3, 0, 1)), 26, 55),
    plant("no_duplicate_pair", "seen_itself", "twice now", _add("rows", pair(1, 12, 4, 1, 1, by=1)), 194),
    plant("alone_only_on_outer_sides", "seen_inner", "left", _add("rows", pair(2, 9, 7, 1, None))),
    plant("alone_only_on_outer_sides", "seen", "right", _add("rows", pair(1, 9, 8, None, 5))),
    plant("alone_only_on_outer_sides", "seen_outer", "none", _add("rows", pair(1, 8, 8, None, None))),
    plant("stream_row_has_value", "seen", "pair", _set("rows", 0, value=None), 14),
    plant("stream_row_has_value", "named", "look-up", _set("rows", 0, value=None), 14, also=_LOADED),
    plant("made_of_values", "seen", "alone without value", _set("left", 1, value=None), 29),
    plant("made_of_values", "seen", "pair with nothing", _set("right", 1, value=None), 29),
    plant(_PAIRS, "seen", "pair lost", _arrives("right", record(1, 13, 3)), 26, 42, 51),
    plant(_PAIRS, "seen_inner", "last pair lost", _without("rows", 1), 26, 51),
    plant(_PAIRS, "seen_outer", "in an outer join", _arrives("right", record(1, 13, 3)), 42, 53, also=_LONELY),
    plant(_PAIRS, "seen_itself", "itself", _all(*(_arrives(side, record(1, 20, 3)) for side in ("left", "right")))),
    plant(_LONELY, "seen", "closed and not emitted", _without("rows", 2), 38, 42, 53),
    plant(_LONELY, "seen", "without a key", _arrives("left", record(None, 21, 4))),
    plant(_LONELY, "seen_outer", "right", _arrives("right", record(3, 13, 3)), 38, 42),
    plant("alone_after_close", "seen", "still open", _add("rows", pair(2, 20, 8, 2, None)), 38),
    plant("alone_in_time", "seen", "an epoch late", _add("rows", pair(3, 5, 8, 9, None)), 45),
    plant("rows_come_from_facts", "named", "update", _set("rows", 2, trigger=_cause("right", 6)), 165, also=_ORDER),
    plant("rows_come_from_facts", "looked", "update", _set("rows", 2, trigger=_cause("right", 2)), 165, also=_ORDER),
    plant("rows_come_from_facts", "named", "nothing", _set("rows", 1, trigger=None), also=f"{_ROW} {_ORDER}"),
    plant(_ROW, "named", "record left out", _add("new_left", record(1, 14, 8, "k")), 63),
    plant(_ROW, "looked", "record without value", _set("new_left", 2, value=None), 29, 63),
    plant(_ROW, "looked_inner", "two rows", _add("rows", row(2, 20, 2, ("left", 1), b="new")), 63),
    plant(_ROW, "priced", "no such record", _without("new_left", 2), also=_ORDER),
    plant(_NEWEST, "looked", "not yet there", _set("rows", 0, value={"a": "x", "b": "new"}), 69),
    plant(_NEWEST, "looked", "stale", _set("rows", 1, value={"a": "x", "b": "old"}), 69),
    plant(_NEWEST, "looked_inner", "match left out", _without("rows", 1), 42),
    plant(_NEWEST, "looked_inner", "no match", _set("right_before", 0, key={"id": 9})),
    plant(_NEWEST, "named_then", "not yet there", _set("rows", 2, value={"a": "k", "b": "kay"}), 69),
    plant("version_of_its_time", "priced", "newer", _set("rows", 1, value={"a": "x", "b": "new"}), 69),
    plant("version_of_its_time", "priced", "older", _set("rows", 0, value={"a": "x", "b": "old"}), 69),
    plant(_LOADED, "named", "as before the epoch", _set("rows", 0, value={"a": "k", "b": "old kay"}), 167),
    plant(_LOADED, "named", "table had more", _add("unread", {"side": "right", "partition": 0, "records": 2}), 167),
    plant(_LOADED, "named_inner", "match left out", _without("rows", 1), 42, 167),
    plant(_HASH, "owned", "stale", _set("rows", 3, made_for={"n": "ab"}), 122),
    plant(_HASH, "owned", "older row without", _set("rows", 0, made_for=None), 122),
    plant(_HASH, "owned", "last row without", _set("rows", 4, made_for=None), 122),
    plant(_HASH, "owned", "left row gone", _without("left", 1), 113, also=_BATCH),
    plant(_HASH, "owned", "tombstone, left row there", _set("rows", 4, value=None), 113),
    plant(_HASH, "owned", "value null, not NULL", _set("left", 1, value={"n": None}), 122, also=_BATCH),
    plant(_HASH, "owned_inner", "stale", _set("left", 0, value={"n": "newer"}), 122, also=_BATCH),
    plant(_HASH, "owned_inner", "left row gone", _without("left", 1), 113, also=_BATCH),
    plant("live_keys", "both", "row without left", _without("left", 0), 87, also=_BATCH),
    plant("live_keys", "both_inner", "row without right", _without("right", 1), 87, also=_BATCH),
    plant("live_keys", "both", "tombstone, left row there", _add("left", record(2, 9, 6)), 14, 87, also=_BATCH),
    plant("live_keys", "both_outer", "tombstone, right row there", _set("rows", 0, value=None), 14, 87),
    plant("live_keys", "weekly", "in no window", _without("left", 0), 87, also=_BATCH),
    plant("tombstone_ends_a_row", "both", "none before", _without("before", 0), 84),
    plant("tombstone_ends_a_row", "both", "ended in this epoch", _set("rows", 0, value=None), 84),
    plant("tombstone_ends_a_row", "pets", "none before", _without("before", 0), 84),
    plant(_FOLD, "owned", "row missing", _without("now", 0), 85),
    plant(_FOLD, "owned", "row too many", _add("now", {"id": 2, "_offset": 5}), 85),
    plant(_FOLD, "owned", "value", _set("now", 1, a="other"), 85),
    plant(_FOLD, "owned", "null", _set("now", 1, b=None), 85),
    plant(_FOLD, "owned", "position", _set("now", 1, _offset=4)),
    plant(_FOLD, "orders", "tombstone ignored", _add("now", {"id": 2, "n": "x", "_offset": 1})),
    plant("unique_keys", "orders", "copy", lambda e: e["table"].append(e["table"][0]), 86),
    plant("unique_keys", "owned", "copy", lambda e: e["table"].append(e["table"][1]), 86),
    plant("unique_keys", "counted", "copy of a window", lambda e: e["table"].append(e["table"][1]), 184),
    plant(_SIZE, "orders", "a row too many", _set("sizes", 0, after=2)),
    plant(_SIZE, "owned", "another key's row is gone", _set("sizes", 0, after=9)),
    plant(_SIZE, "both_inner", "nothing ended", _without("was", 0)),
    plant(_BATCH, "both", "stale", _emitted(3, 0, "x", "older"), 85, 91),
    plant(_BATCH, "both_inner", "change not emitted", _set("right", 1, value={"n": "z"}), 42, 85),
    plant(_BATCH, "both_outer", "side not emitted", _emitted(0, 0, None, None), 42, 85),
    plant(
        _BATCH,
        "both_outer",
        "key not emitted",
        _add("left", record(7, 5, 6)),
        85,
    ),
    plant(_BATCH, "weekly", "other week", _emitted(0, 0, 1, 7), 85),
    plant(_BATCH, "owned", "row of the old foreign key", _emitted(3, 0, "a", "both"), 112, 125),
    plant(_BATCH, "owned", "fan-out forgot one", _emitted(4, 1, "a", "old"), 112),
    plant(_BATCH, "owned_inner", "no partner", _without("right", 0), 112, 113),
    plant(_BATCH, "pets", "row under the old pair", _add("table", {"who": "a", "id": 1, "a": "ay", "b": "b"}), 156),
    plant(_BATCH, "pets", "not under the new one", _without("table", 0), 112, 156),
    plant(
        "found_by_foreign_key",
        "owned",
        "ab found under a",
        _add("rows", row(4, 13, 8, ("right", 7), "ab", "new", made_for={"n": "ab"})),
        118,
        also=_HASH,
    ),
    plant(
        "found_by_foreign_key",
        "pets",
        "one's change",
        _add("rows", row({"who": "c", "id": 3}, 12, 6, ("left", 3), "sea", "a")),
        118,
    ),
    plant(
        "found_by_foreign_key",
        "pets",
        "other one",
        _add("rows", row({"who": "ab", "id": 1}, 10, 6, ("right", 0), "x", "b")),
        118,
        also=_ORDER,
    ),
    plant(_HELD, "counted", "one too many", _set("rows", 0, value={"c": 3, "t": 2.0}), 184),
    plant(_HELD, "counted", "sum", _set("rows", 1, value={"c": 1, "t": 1.1}), 184),
    plant(_HELD, "counted", "late one counted", _set("rows", 0, value={"c": 3, "t": 3.0}), 184),
    plant(_HELD, "slid", "one too few", _set("rows", 1, value={"c": 1}), 184),
    plant(_WINDOW, "counted", "end", lambda e: e["rows"][0]["key"].update(window_end=9), 184),
    plant(_WINDOW, "counted", "not emitted", _arrives("left", record(1, 21, 4)), 184),
    plant(_WINDOW, "counted", "closed window", _set("rows", 0, trigger=_cause("left", 3)), 184, also=_ORDER),
    plant("aggregate_of_group", "grouped", "count", _aggregated(1, c=3), 85),
    plant("aggregate_of_group", "grouped", "average", _aggregated(1, m=1.501), 85),
    plant("aggregate_of_group", "grouped", "group is empty", _without("left", 2), 85),
    plant("dense_offsets", "seen_inner", "hole", _set("rows", 1, offset=7), 194),
    plant("dense_offsets", "kept", "double", _set("rows", 1, offset=0), 194),
    plant("dense_offsets", "clicks", "not at 0", _without("rows", 0)),
    plant("dense_offsets", "orders", "overlap", _set("bounds", 0, first_offset=1), also="dense_changelog"),
    plant("dense_changelog", "seen", "hole", _without("changelog", 1), 194),
    plant("dense_changelog", "named", "not at 0", _without("changelog", 0), 194),
    plant("dense_changelog", "clicks", "double", lambda e: e["changelog"].append(e["changelog"][0])),
    plant("record_shape", "seen", "no time", _set("rows", 0, timestamp=None)),
    plant("record_shape", "clicks", "no such partition", _set("rows", 0, partition=2), also="dense_offsets"),
    plant("record_shape", "orders", "no key", _set("rows", 0, key=None)),
    plant("one_row_per_cause", "kept", "copy", _add("rows", record(2, 3, 2, epoch=2, trigger=_cause("left", 1))), 194),
    plant("one_row_per_cause", "owned", "left", _set("rows", 1, trigger=_cause("left", 0)), 123),
    plant(
        "one_row_per_cause",
        "both",
        "left",
        lambda e: e["rows"].append(ended(e["rows"][2]) | {"offset": 7}),
        194,
        also=f"tombstone_ends_a_row {_ORDER}",
    ),
    plant(
        _ORDER,
        "seen",
        "swapped",
        _all(_set("rows", 0, trigger=_cause("right", 2)), _set("rows", 1, trigger=_cause("right", 1))),
        193,
    ),
    plant(_ORDER, "kept", "no such cause", _set("rows", 1, trigger=_cause("left", 7)), 193),
    plant(
        _ORDER,
        "kept",
        "swapped",
        _all(_set("rows", 0, trigger=_cause("left", 1)), _set("rows", 1, trigger=_cause("left", 0))),
        193,
        194,
    ),
    plant(
        _ORDER,
        "looked",
        "swapped",
        _all(
            _set("new_left", 0, timestamp=30),
            _set("new_left", 1, offset=0),
            _set("new_left", 0, offset=1),
            _set("rows", 0, trigger=_cause("left", 1)),
            _set("rows", 1, trigger=_cause("left", 0)),
        ),
        193,
        also=_NEWEST,
    ),
    plant(_PLACE, "items", "in another one before", _set("placed", 0, partition=1)),
    plant(_PLACE, "items", "in two of the epoch", _add("rows", record(1, 7, 0, epoch=1, partition=1))),
    plant(_PLACE, "items", "tombstone elsewhere", _set("rows", 2, partition=1, offset=0)),
    plant(_PLACE, "sold", "window of one key in two", _set("placed", 0, partition=1)),
    plant(_PLACE, "tagged", "row in another one before", _set("placed", 0, partition=1)),
    plant(_MEET, "returned", "right elsewhere", _set("right", 0, partition=1), 3),
    plant(_MEET, "itemised", "row elsewhere", _set("right_before", 0, partition=1), 3),
    plant(_MEET, "itemised", "update elsewhere", _set("new_right", 0, partition=1, offset=0), 3),
    plant(_MEET, "rated", "version elsewhere", _set("right", 0, partition=1), 3),
    plant(_MEET, "tagged", "right row elsewhere", _set("right", 1, partition=1), 3),
    plant(_MEET, "tagged", "left row elsewhere", _set("left", 0, partition=1), 3),
    plant("late_share", "seen", "one of seven", _add("late", late(1, 3, 20, 15))),
    plant("late_share", "looked_inner", "one without a key", _add("late", late(1, 3, 20, 15))),
    plant("late_share", "seen_inner", "two of seven", lambda e: e["late"].extend([late(1, 3, 20, 15)] * 2)),
)
