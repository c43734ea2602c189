"""The reference joins against the documents' tables, and against laws they were not written from.

Whatever the Spark operators are compared with is proven here first, without Spark.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, cycle, groupby, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermeet.joins.foreign_key.reference.join import ForeignKeyJoin
from rivermeet.joins.reference.records import (
    Join,
    Record,
    Row,
    interleave,
    number_records,
    run,
)
from rivermeet.joins.stream_global.reference import StreamGlobalJoin
from rivermeet.joins.stream_stream.reference.profile_3_1 import BEGINNING, StreamStreamJoin
from tests.golden.load import PROFILES, Case, cases, decision, tables
from tests.reference.histories import (
    NASTY_STREAM_STREAM,
    foreign_key_of,
    histories,
    in_epoch,
    interleave_all,
    random_histories,
    records_of,
    split,
    still_waiting,
)

HOWS = ("inner", "left", "outer")
WINDOWS = ((10, 10, 5), (10, 10, 0), (0, 12, 3), (12, 0, 3), (0, 0, 4), (-3, 9, 6), (9, -3, 6))


def ids(case: Case) -> str:
    return case.id


def itself(_key: Any, value: Any) -> Any:
    """Golden foreign-key tables show a left value as its foreign key."""
    return value


def golden(join: Join, case: Case, cut: int) -> list[tuple[int, Any, Any]]:
    """Rows by step, from two objects: one stopped at the cut, its copy going on from there."""
    first = run(join, case.records[:cut])
    second = run(copy.deepcopy(join), case.records[cut:])
    run(join, case.records[cut:])  # whatever the original does now must not reach the copy
    return [(row.trigger, row.key, row.value) for row in first + second if row.trigger > 0]


def expected(case: Case) -> list[tuple[int, Any, Any]]:
    return [(row.at_step, row.key, row.value) for row in case.expected]


# --- the documents' tables ---


def test_every_stored_trace_has_a_profile_decision() -> None:
    traces = [table["id"] for table in tables() if table["kind"] == "trace"]
    assert len(traces) == 62
    assert {start for start in PROFILES if not any(trace.startswith(start) for trace in traces)} == set()
    assert [trace for trace in traces if not decision(trace)[0]] == ["s002.window.asymmetric_seed_sql"]


@pytest.mark.parametrize("case", cases("stream-stream", "3.1"), ids=ids)
def test_stream_stream_reproduces_the_printed_tables(case: Case) -> None:
    assert case.window is not None
    w = case.window
    for cut in range(len(case.records) + 1):
        join = StreamStreamJoin(case.how, w.before, w.after, w.grace)
        assert golden(join, case, cut) == expected(case)


@pytest.mark.parametrize("case", [c for c in cases("stream-stream", "3.1") if c.provenance == "seed"], ids=ids)
def test_stream_stream_keeps_waiting_what_the_table_leaves_open(case: Case) -> None:
    assert case.window is not None
    w = case.window
    join = StreamStreamJoin(case.how, w.before, w.after, w.grace)
    run(join, case.records)
    waiting = [(r.side, r.key, r.value, r.timestamp) for r in still_waiting(join)]
    assert waiting == list(case.pending_at_end)


def test_stream_stream_gives_neither_the_eager_nor_the_code_reading() -> None:
    for case in cases("stream-stream"):
        if case.id.endswith(("expiry_kafka_code_reading", "legacy_window_api")) and case.window:
            w = case.window
            join = StreamStreamJoin(case.how, w.before, w.after, w.grace)
            assert golden(join, case, 0) != expected(case), case.id


@pytest.mark.parametrize("case", cases("fk-table-table", "3.1"), ids=ids)
def test_foreign_key_reproduces_the_printed_tables(case: Case) -> None:
    for cut in range(len(case.records) + 1):
        assert golden(ForeignKeyJoin(case.how, itself), case, cut) == expected(case)


@pytest.mark.parametrize("case", cases("global", "3.1"), ids=ids)
def test_stream_global_reproduces_the_invoice_through_two_look_ups(case: Case) -> None:
    for cut in range(len(case.records) + 1):
        join = Invoice(case.how)
        first = [row for record in case.records[:cut] for row in join.process(record)]
        later = copy.deepcopy(join)
        second = [row for record in case.records[cut:] for row in later.process(record)]
        assert first + second == expected(case)


class Invoice:
    """Purchase with product, the result with customer: KIP-99's chain of two global tables."""

    def __init__(self, how: str) -> None:
        self.products = StreamGlobalJoin(how, lambda _, value: value["product_id"])
        self.customers = StreamGlobalJoin(how, lambda _, value: value[0]["account_id"])

    def process(self, x: Record) -> list[tuple[int, Any, Any]]:
        if x.side != "purchase":
            (self.products if x.side == "product" else self.customers).process(side_of(x, "right"))
            return []
        found = run(self.products, [side_of(x, "left")])
        facts = [Record("left", r.key, r.value, r.timestamp, position=r.trigger) for r in found]
        return [(r.trigger, r.key, invoice(r)) for r in run(self.customers, facts)]


def side_of(x: Record, side: str) -> Record:
    return Record(side, x.key, x.value, x.timestamp, x.partition, x.offset, x.position)


def invoice(row: Row) -> dict[str, Any]:
    assert row.value is not None
    (_, found), resident = row.value
    product: dict[str, Any] = found or {}
    customer: dict[str, Any] = resident or {}
    return {
        "purchase": row.key,
        "product": product.get("name"),
        "price": product.get("price"),
        "customer": customer.get("name"),
        "address": customer.get("address"),
    }


# --- the order of processing ---


def by_running_maximum(records: list[Record], rank: Callable[[Record], Any]) -> list[Record]:
    """The vectorised order: sort by (running maximum in the own queue, rank, offset)."""
    keyed: list[tuple[int, Any, int, Record]] = []
    queue: Callable[[Record], Any] = lambda r: (r.side, r.partition)  # noqa: E731
    for _, group in groupby(sorted(records, key=lambda r: (queue(r), r.offset)), queue):
        members = list(group)
        maxima = accumulate((r.timestamp for r in members), max)
        keyed += [(m, rank(r), r.offset, r) for m, r in zip(maxima, members, strict=True)]
    return number_records(k[3] for k in sorted(keyed, key=lambda k: k[:3]))


@given(histories("foreign_key", partitions=(3, 2)))
def test_lowest_head_over_all_partitions_is_the_running_maximum_sort(h: list[Record]) -> None:
    assert interleave_all(*split(h)) == by_running_maximum(h, lambda r: (r.side, r.partition))


@given(histories("stream_stream", partitions=(3, 3)))
def test_lowest_head_per_partition_is_the_running_maximum_sort(h: list[Record]) -> None:
    merged = interleave(*split(h))
    for p in range(3):
        alone = by_running_maximum([r for r in h if r.partition == p], lambda r: r.side)
        assert number_records(r for r in merged if r.partition == p) == alone


def test_interleaving_looks_at_heads_only() -> None:
    left = [Record("left", "k", "a", 10), Record("left", "k", "b", 5, offset=1)]
    right = [Record("right", "k", "c", 7), Record("right", "k", "d", 12, offset=1)]
    assert [r.value for r in interleave(left, right)] == ["c", "a", "b", "d"]
    assert [r.position for r in interleave(left, right)] == [0, 1, 2, 3]


# --- stream-stream: laws ---


def flushed(records: Sequence[Record]) -> list[Record]:
    """The history with a last far record in each partition, so that every window closes."""
    end = len(records)
    return [
        *records,
        *(Record("left", "end", "end", 10**6, p, 10**6, end + p) for p in range(4)),
    ]


def relational(
    records: list[Record], how: str, window: tuple[int, int, int]
) -> tuple[set[tuple[int, int, int]], set[tuple[int, int]]]:
    """docs/laws.md's relational form: pairs (left, right, trigger) and one-sided (record, trigger)."""
    before, after, grace = window
    seen: dict[int, int] = {}
    time_before: dict[int, int] = {}
    for r in records:
        time_before[r.position] = seen.get(r.partition, BEGINNING)
        seen[r.partition] = max(time_before[r.position], r.timestamp)

    def close(r: Record) -> int:
        return r.timestamp + max(after if r.side == "left" else before, 0) + grace

    valued = [r for r in records if r.value is not None]
    kept = [r for r in valued if r.key is not None and time_before[r.position] < close(r)]
    pairs: set[tuple[int, int, int]] = set()
    for a in kept:
        for b in kept:
            if (a.side, b.side) == ("left", "right") and a.key == b.key:
                early, x = sorted((a, b), key=lambda r: r.position)
                in_window = a.timestamp - before <= b.timestamp <= a.timestamp + after
                if in_window and time_before[x.position] < close(early):
                    pairs.add((a.position, b.position, x.position))
    paired = {position for pair in pairs for position in pair[:2]}
    outer = {"inner": (), "left": ("left",), "outer": ("left", "right")}[how]
    alone = {(r.position, r.position) for r in valued if r.key is None and r.side in outer}
    for o in kept:
        if o.side in outer and o.position not in paired:
            later = (r for r in records[records.index(o) :] if r.partition == o.partition)
            closing = (r for r in later if max(time_before[r.position], r.timestamp) >= close(o))
            alone |= {(o.position, r.position) for r in islice(closing, 1)}
    return pairs, alone


@pytest.mark.parametrize("how", HOWS)
@given(h=histories("stream_stream", partitions=(2, 2)), window=st.sampled_from(WINDOWS))
def test_record_by_record_equals_the_relational_form(how: str, h: list[Record], window: tuple[int, int, int]) -> None:
    assert_relational(h, how, window)


@pytest.mark.parametrize("how", HOWS)
def test_record_by_record_equals_the_relational_form_on_long_histories(how: str) -> None:
    for h, window in zip(random_histories(3, 100, partitions=(2, 2)), cycle(WINDOWS), strict=False):
        assert_relational(h, how, window)


def assert_relational(h: list[Record], how: str, window: tuple[int, int, int]) -> None:
    rows = run(StreamStreamJoin(how, *window), h)
    both = [(r.left, r.right, r.trigger) for r in rows if None not in (r.left, r.right)]
    one = [(r.left if r.right is None else r.right, r.trigger) for r in rows if None in (r.left, r.right)]
    pairs, alone = relational(h, how, window)
    assert sorted(both) == sorted(pairs)
    assert sorted(one) == sorted(alone)


@pytest.mark.parametrize("how", HOWS)
@given(h=histories("stream_stream", partitions=(2, 2)), window=st.sampled_from(WINDOWS))
def test_no_one_sided_row_is_spurious_doubled_or_missing(
    how: str, h: list[Record], window: tuple[int, int, int]
) -> None:
    join = StreamStreamJoin(how, *window)
    rows = run(join, flushed(h))
    paired = [p for r in rows if None not in (r.left, r.right) for p in (r.left, r.right)]
    alone = [r.left if r.right is None else r.right for r in rows if None in (r.left, r.right)]
    assert len(alone) == len(set(alone))
    assert not set(alone) & set(paired)
    late = {record.position for record in join.late}
    assert not late & (set(alone) | set(paired))
    kept = {r.position for r in h if r.side in join.outer_sides and r.value is not None and r.position not in late}
    assert kept <= set(alone) | set(paired)


@pytest.mark.parametrize("how", HOWS)
@given(h=histories("stream_stream"), window=st.sampled_from(WINDOWS))
def test_rows_of_a_record_come_in_the_laws_order(how: str, h: list[Record], window: tuple[int, int, int]) -> None:
    at = {r.position: r for r in h}
    for trigger, group in groupby(run(StreamStreamJoin(how, *window), h), lambda r: r.trigger):
        ranks: list[tuple[Any, ...]] = []
        for row in group:
            if row.left is not None and row.right is not None:
                other = at[row.right if row.left == trigger else row.left]
                ranks.append((0, other.timestamp, 0, other.position))
            else:
                own = at[max(p for p in (row.left, row.right) if p is not None)]
                at_once = own.key is None
                ranks.append((not at_once, own.timestamp, own.side == "left", own.position))
        assert ranks == sorted(ranks)


def test_the_nasty_script_of_the_stream_join_record_by_record() -> None:
    join = StreamStreamJoin("outer", 10, 10, 5)
    history = [replace(record, trace=[]) for record in records_of(NASTY_STREAM_STREAM)]
    rows = run(join, history)
    assert [(r.trigger, r.key, r.value, r.timestamp) for r in rows] == NASTY_STREAM_STREAM_ROWS
    assert [record.value for record in join.late] == ["r3", "J"]
    notes = [note for record in join.late for note in record.trace or ()]
    assert [(note.rule, note.stream_time, note.close) for note in notes] == [("late", 25, 25), ("late", 51, 51)]


NASTY_STREAM_STREAM_ROWS = [
    (2, "a", ("A", "r0"), 10),
    (3, "a", ("A", "r0"), 10),
    (6, "a", ("A", "r1"), 20),
    (6, "a", ("A", "r1"), 20),
    (8, None, ("N", None), 22),
    (9, None, (None, "n"), 21),
    (11, "a", ("C", "r1"), 20),
    (11, "a", ("C", "r2"), 21),
    (14, "a", ("C", "r4"), 12),
    (15, "b", (None, "s0"), 11),
    (16, "b", ("B", "s1"), 32),
    (17, "c", ("D", None), 25),
    (18, "c", ("E", None), 26),
    (19, "d", ("F", "t0"), 41),
    (21, "d", ("G", "t0"), 51),
    (21, "d", ("f", None), 30),
    (25, None, (None, "m"), 2),
    (26, "e", (None, "u"), 51),
    (26, "g", ("H", None), 51),
    (27, "d", (None, "t1"), 66),
    (29, "a", ("Z", None), 80),
]


# --- foreign key: laws ---


def fold(rows: list[Row]) -> dict[Any, Any]:
    table = {row.key: row.value for row in rows}
    return {key: value for key, value in table.items() if value is not None}


def batch_join(join: ForeignKeyJoin) -> dict[Any, Any]:
    """SQL's answer over the two tables as they are now."""
    result: dict[Any, Any] = {}
    for left in join.left.values():
        right = join.right.get(join.extract(left.key, left.value))
        if right is not None or join.how == "left":
            result[left.key] = (left.value, right.value if right else None)
    return result


@pytest.mark.parametrize("how", ["inner", "left"])
@given(h=histories("foreign_key"))
def test_every_prefix_folds_to_the_batch_join(how: str, h: list[Record]) -> None:
    join = ForeignKeyJoin(how, foreign_key_of)
    rows: list[Row] = []
    for record in h:
        rows += join.process(record)
        assert fold(rows) == batch_join(join)


@pytest.mark.parametrize("how", ["inner", "left"])
@given(h=histories("foreign_key"))
def test_a_hash_is_missing_only_where_the_left_row_is_gone(how: str, h: list[Record]) -> None:
    join = ForeignKeyJoin(how, foreign_key_of)
    for record in h:
        for row in join.process(record):
            present = join.left.get(row.key)
            assert row.left_hash_of == (present.value if present else None)


def test_fan_out_goes_by_the_bytes_of_the_left_key() -> None:
    keys = ["p2", "zz", "p1", "B", "p10", "é"]
    lines = [("left", key, "f|1", 0) for key in keys]
    rows = run(ForeignKeyJoin("inner", foreign_key_of), records_of([*lines, ("right", "f", "x", 1)]))
    assert [row.key for row in rows] == ["B", "p1", "p10", "p2", "zz", "é"]
    numbers = [Record("left", key, "f", 0) for key in (2, -1, 10)]
    rows = run(ForeignKeyJoin("inner", itself), [*numbers, Record("right", "f", "x", 1)])
    assert [row.key for row in rows] == [2, 10, -1]


# --- stream-global: laws ---


def test_bootstrap_loads_the_table_of_a_batch_first() -> None:
    records = records_of([("left", "o", "p|1", 1), ("right", "p", "mug", 2)])
    for how, given_rows in (("inner", []), ("left", [("p|1", None)])):
        loaded = in_epoch(StreamGlobalJoin(how, foreign_key_of), records)
        given_order = in_epoch(StreamGlobalJoin(how, foreign_key_of), records, "given")
        assert [row.value for row in loaded] == [("p|1", "mug")]
        assert [row.value for row in given_order] == given_rows


@given(h=histories("stream_global", partitions=(2, 3)))
def test_inner_is_left_without_its_null_rows(h: list[Record]) -> None:
    inner = run(StreamGlobalJoin("inner", foreign_key_of), h)
    left = run(StreamGlobalJoin("left", foreign_key_of), h)
    assert inner == [row for row in left if row.right is not None]
    assert [row.trigger for row in left] == [r.position for r in h if r.side == "left" and r.value is not None]


# --- every family ---


@given(data=st.data())
@pytest.mark.parametrize("family", ["stream_stream", "foreign_key", "stream_global"])
def test_stopped_anywhere_a_join_goes_on_as_if_it_had_not(family: str, data: st.DataObject) -> None:
    h = data.draw(histories(family))
    cut = data.draw(st.integers(0, len(h)))
    for make in MAKERS[family]:
        whole, first = make(), make()
        before = run(first, h[:cut])
        assert before + run(copy.deepcopy(first), h[cut:]) == run(whole, h)


MAKERS: dict[str, list[Callable[[], Join]]] = {
    "stream_stream": [lambda how=how: StreamStreamJoin(how, 10, 10, 5) for how in HOWS],
    "foreign_key": [lambda how=how: ForeignKeyJoin(how, foreign_key_of) for how in HOWS[:2]],
    "stream_global": [lambda how=how: StreamGlobalJoin(how, foreign_key_of) for how in HOWS[:2]],
}


@pytest.mark.parametrize("family", MAKERS)
def test_random_histories_are_the_same_for_the_same_seed(family: str) -> None:
    first, again = (list(random_histories(7, 3, family)) for _ in range(2))
    assert first == again
    assert [len(h) for h in first] == [40, 40, 40]
    for h in first:
        assert all(r.partition == 0 for r in h)
        assert [r.position for r in h] == list(range(40))
