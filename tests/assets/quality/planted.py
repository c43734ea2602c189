"""One violation of every invariant: by bugs in our code, and by what is delivered (``planted_pipeline.py``).

A node whose epoch is refused shows what its audit found, and of its table what the last fold found.
"""

from __future__ import annotations

from tests.assets.quality.bugs import Bug, changed, copied, without


def _side(side: str, offset: str) -> str:
    return f"named_struct('side', '{side}', 'partition', trigger.partition, 'offset', {offset})"


def _value(**fields: str) -> str:
    return f"struct({', '.join(f'{sql} AS {name}' for name, sql in fields.items())})"


def _key(id: str) -> str:
    return f"named_struct('id', '{id}')"


BUGS = (
    # Of y-y the window is open, so that its left record need not be alone.
    Bug("seen", "every_pair_in_window", without("key.id = 'y'")),
    Bug("seen", "every_lonely_record", without("key.id = 'e'")),
    Bug("seen", "alone_after_close", copied("key.id = 'f'", key=_key("x"), timestamp="61L", left_offset="9L")),
    Bug("seen", "alone_in_time", changed("key.id = 'f'", timestamp="20L")),
    Bug("seen_refused", "no_spurious_one_sided_row", copied("key.id = 'e'", key=_key("d"), left_offset="2L")),
    Bug("seen_refused", "pair_in_window", copied("key.id = 'y'", key=_key("x"), left_offset="9L")),
    Bug("seen_refused", "no_duplicate_pair", copied("left_offset = 8")),
    Bug(
        "seen_refused",
        "alone_only_on_outer_sides",
        copied("left_offset = 3", key=_key("q"), timestamp="42L", left_offset="NULL", right_offset="3L"),
    ),
    Bug("seen_refused", "made_of_values", copied("left_offset = 3", key=_key("t"), left_offset="5L")),
    Bug("seen_refused", "stream_row_has_value", changed("key.id = 'f'", value="NULL")),
    # The update of p has the offset of d, and no turn among the clicks.
    Bug(
        "named_refused",
        "rows_come_from_facts processing_order",
        changed("key.id = 'd'", trigger=_side("right", "trigger.offset")),
    ),
    Bug("named_refused", "row_of_every_record", without("key.id = 'e'")),
    Bug("named_refused", "loaded_first", changed("key.id = 'f'", value=_value(a="value.a", b="9"))),
    Bug("looked", "newest_version", changed("key.id = 'd'", value=_value(a="value.a", b="2"))),
    Bug("priced", "version_of_its_time", changed("key.id = 'd'", value=_value(a="value.a", b="1"))),
    Bug("both", "equals_batch_join", changed("key.id = 'k1'", value=_value(a="value.a", b="9"))),
    Bug("both_refused", "live_keys", changed("key.id = 'k1'", value="NULL")),
    Bug("both_refused", "one_row_per_cause", copied("key.id = 'k5'")),
    Bug("both_refused", "tombstone_ends_a_row", copied("key.id = 'k1'", key=_key("k0"), value="NULL")),
    Bug("owned_refused", "foreign_key_hash", changed("key.id = 'k5'", left_hash="left_hash + 1")),
    # The update of u1 is answered for k1; the next one is of d, to which nothing points.
    Bug(
        "owned_refused",
        "found_by_foreign_key",
        changed("trigger.side = 'right'", trigger=_side("right", "trigger.offset + 1")),
    ),
    Bug("counted", "row_of_every_window", without("key.id = 'g' AND value.c = 1")),
    Bug("counted", "aggregate_of_window", changed("key.id = 'e'", value=_value(c="7L"))),
    Bug(
        "grouped",
        "aggregate_of_group own_table",
        changed("key.who = 'u2'", value=_value(c="value.c + 99", s="value.s")),
    ),
    Bug("kept", "processing_order", changed("trigger.offset IN (2, 3)", trigger=_side("left", "5 - trigger.offset"))),
    Bug("kept", "dense_changelog", copied("key.id = 'x'"), "commit"),
    Bug("noise", "record_shape", changed("key.id = 'n2'", partition="7")),
    Bug("noise", "dense_offsets", changed("key.id = 'n4'", offset="offset + 1"), "offsets"),
    Bug("stock", "fold_equals_table", changed("id = 's1'", n="9"), "fold"),
    Bug("stock", "unique_keys table_size", copied("id = 's3'"), "fold"),
    Bug("shelf", "table_size", copied("id = 't1'", id="'t3'", _deleted="true"), "merge"),
    # In an epoch nobody asks for the row of a key that the epoch does not touch.
    Bug("shelf", "", copied("id = 't1'", id="'t2'", n="9"), "merge"),
)
VIOLATED: dict[tuple[str, str], str] = {
    **{(bug.node, invariant): "violated" for bug in BUGS for invariant in bug.breaks.split()},
    **dict.fromkeys([("kept", "own_critical"), ("kept", "own_info"), ("kept", "own_committed")], "violated"),
    **dict.fromkeys([("kept_refused", "own_blocking"), ("seen", "late_share")], "violated"),
    **dict.fromkeys([("kept", "own_lost"), ("kept_refused", "own_lost")], "not evaluated"),
}
"""Node and invariant to how it stands after the second delivery, wherever it is shown; all others hold."""
EVERYWHERE = VIOLATED | {
    **{("shelf", "fold_equals_table"): "violated"},
    # The audit has seen x once, and sees it twice when it judges what was written.
    **dict.fromkeys([("kept", "dense_offsets"), ("kept", "one_row_per_cause")], "violated"),
}
"""The same once checks have been run alone, on all that the tables hold."""
REFUSED = {"seen_refused", "named_refused", "both_refused", "owned_refused", "kept_refused", "noise"}
"""Nodes whose second epoch must not be committed."""
