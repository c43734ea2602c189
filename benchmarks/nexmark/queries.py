"""NEXMark's queries 3, 8 and 20 as pipelines.

- q3, local item suggestion: who sells in Oregon, Idaho or California, in category 10, and which auctions? Auctions
  ⋈ persons, two tables, on the foreign key ``seller``.
- q8, monitor new users: who registered and offered an item in the same ten seconds? Persons ⋈ auctions, two streams.
- q20, expand bid with auction: what is on offer where bids of category 10 go? Bids ⋈ auctions, a stream and a table.

Filters stand at the sources: no event of NEXMark changes an earlier one, so that what does not pass never has.

q8: NEXMark's windows tumble, [0 s, 10 s), [10 s, 20 s) and so on, while join windows slide with each record, as Kafka
Streams' do: a person at 9 s and an auction at 11 s are in no window together, though 2 s apart. So the window's start
is a part of the key. Records of one key then lie less than ten seconds apart, and the join's window only has to reach
as far. Rows are Beam's: one for each auction (Flink's SQL has one per person and window). Nothing is late: events come
up to 3 s after their time, and the grace is longer.

q20: the published query joins two unbounded streams and waits for what comes later. Here a bid meets what the table of
auctions has when it arrives, as a stream-table join does; one that names an auction to come, or one held back, meets
none. What has arrived is known by the arrival number alone, so that is the records' timestamp (as in a Kafka topic with
``message.timestamp.type=LogAppendTime``); event times are values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.nexmark.answers import CATEGORY, CHECKSUMS, LOCAL, WINDOW_MS
from rivermeet.assets.bench.workloads import Workload
from rivermeet.pipelines import Files, JoinWindow, Pipeline, expr

_NUMBERS = {"seq", "ts", "id", "auction", "bidder", "price", "initial_bid", "reserve", "expires", "seller", "category"}
_WINDOW = expr(f"ts - ts % {WINDOW_MS}", "BIGINT")


def _files(name: str, columns: tuple[str, ...]) -> Files:
    kinds = {column: "BIGINT" if column in _NUMBERS else "STRING" for column in columns}
    return Files(f"{name}/*.parquet", "parquet", kinds)


def q3() -> Workload:
    """Local item suggestion."""
    made = Pipeline("bench_q3")
    columns = {"auctions": ("id", "seller", "category", "ts"), "persons": ("id", "name", "city", "state", "ts")}
    auctions = made.table(
        "auctions",
        _files("auctions", columns["auctions"]),
        key=["id"],
        value=["seller"],
        timestamp="ts",
        where=f"category = {CATEGORY}",
    )
    persons = made.table(
        "persons",
        _files("persons", columns["persons"]),
        key={"person": "id"},
        value=["name", "city", "state"],
        timestamp="ts",
        where=f"state IN {LOCAL}",
    )
    select = {column: f"right.{column}" for column in ("name", "city", "state")}
    result = auctions.join(persons, "suggestions", foreign_key="seller", select=select)
    return Workload(columns, result, f"SELECT {CHECKSUMS['q3']} FROM {{rows}}")


def q8() -> Workload:
    """Monitor new users."""
    made = Pipeline("bench_q8")
    columns = {"persons": ("id", "name", "ts"), "auctions": ("seller", "reserve", "ts")}
    persons, auctions = (
        made.stream(
            name,
            _files(name, columns[name]),
            key={"person": person, "window_start": _WINDOW},
            value=[value],
            timestamp="ts",
        )
        for name, (person, value, _) in columns.items()
    )
    # Both ends of a join's window are in it.
    window = JoinWindow(WINDOW_MS - 1, WINDOW_MS - 1, grace="4s")
    select = {"name": "left.name", "reserve": "right.reserve"}
    result = persons.join(auctions, "new_sellers", window=window, select=select)
    return Workload(columns, result, f"SELECT {CHECKSUMS['q8']} FROM {{rows}}")


def q20() -> Workload:
    """Expand bid with auction."""
    made = Pipeline("bench_q20")
    details = ("item_name", "description", "initial_bid", "reserve", "expires", "seller", "category")
    columns = {
        "bids": ("auction", "bidder", "price", "channel", "url", "ts", "seq"),
        "auctions": ("id", *details, "ts", "seq"),
    }
    bids = made.stream(
        "bids",
        _files("bids", columns["bids"]),
        key=["auction"],
        value=["bidder", "price", "channel", "url", "ts"],
        timestamp="seq",
    )
    auctions = made.table(
        "auctions",
        _files("auctions", columns["auctions"]),
        key={"auction": "id"},
        value=[*details, "ts"],
        timestamp="seq",
        where=f"category = {CATEGORY}",
    )
    select = {column: f"left.{column}" for column in ("bidder", "price", "channel", "url")}
    select |= {"bid_time": "left.ts", "auction_time": "right.ts"} | {column: f"right.{column}" for column in details}
    result = bids.join(auctions, "expanded_bids", select=select)
    return Workload(columns, result, f"SELECT {CHECKSUMS['q20']} FROM {{rows}}")


QUERIES: Mapping[str, Callable[[], Workload]] = {"q3": q3, "q8": q8, "q20": q20}
