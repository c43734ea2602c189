"""The benchmarks' workloads as pipelines, and what their answers are checked by.

| workload | records | joined | checksum, modulo 2^63 |
|---|---|---|---|
| fk | orders (side 0), customers (1) | inner, on the order's customer | sum of amount x (tier + 1), final table |
| ss | impressions (0), clicks (1) | inner, within 10 s, grace 5 s | sum of 31 x impression + click, all pairs |
| st | facts (0), rows of a table (1) | left, the table as of arrival | sum of fact x (row + 1) over all hits |

A folder of Parquet files has the records of both sides in order of arrival, a file an epoch; columns ``seq``, ``ts``,
``side``, ``key``, ``num`` and, as the workload has them, ``fk``, ``text``, ``del``. In ``st`` the arrival number is the
time: what a record meets is decided by arrival alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline

PARTITIONS = 4


@dataclass(frozen=True)
class Workload:
    """A declared workload.

    Attributes
    ----------
    sides
        Sources' nodes, of side 0 and side 1, and the columns that their files have.
    result
        The join that is measured.
    answer
        SQL of (rows, checksum) over ``{rows}``: the folded table of a table, else the values of the changelog.
    """

    sides: Mapping[str, tuple[str, ...]]
    result: Node
    answer: str

    @property
    def pipeline(self) -> Pipeline:
        """What is run."""
        return self.result.pipeline


def _files(name: str, *columns: str) -> Files:
    kinds = {"text": "STRING"}
    return Files(f"{name}/*.parquet", "parquet", {column: kinds.get(column, "BIGINT") for column in columns})


def fk(cache: bool = False, partitions: int = PARTITIONS) -> Workload:
    """Orders with the tier of their customer."""
    made = Pipeline("bench_fk")
    columns = {"orders": ("key", "fk", "num", "text", "ts", "del"), "customers": ("key", "num", "text", "ts", "del")}
    orders = made.table(
        "orders",
        _files("orders", *columns["orders"]),
        key={"order_id": "key"},
        value={"customer_id": "fk", "amount": "num", "payload": "text"},
        timestamp="ts",
        tombstone="del = 1",
        partitions=partitions,
    )
    customers = made.table(
        "customers",
        _files("customers", *columns["customers"]),
        key={"customer_id": "key"},
        value={"tier": "num", "name": "text"},
        timestamp="ts",
        tombstone="del = 1",
        partitions=partitions,
    )
    select = {"amount": "left.amount", "tier": "right.tier", "payload": "left.payload", "name": "right.name"}
    result = orders.join(
        customers, "enriched", foreign_key="customer_id", select=select, cache="epoch" if cache else None
    )
    return Workload(columns, result, "SELECT count(*), sum(amount * (tier + 1)) FROM {rows}")


def ss(cache: bool = False, partitions: int = PARTITIONS) -> Workload:
    """Clicks within ten seconds of an impression."""
    made = Pipeline("bench_ss")
    columns = {"impressions": ("key", "num", "ts"), "clicks": ("key", "num", "ts")}
    impressions, clicks = (
        made.stream(
            name, _files(name, *columns[name]), key=["key"], value=["num"], timestamp="ts", partitions=partitions
        )
        for name in columns
    )
    window = JoinWindow("10s", "10s", grace="5s")
    select = {"impression": "left.num", "click": "right.num"}
    result = impressions.join(clicks, "clicked", window=window, select=select)
    return Workload(columns, result, "SELECT count(*), sum(impression * 31 + click) FROM {rows}")


def st(cache: bool = False, partitions: int = PARTITIONS) -> Workload:
    """A stream with the row of a table that had arrived."""
    made = Pipeline("bench_st")
    columns = {"facts": ("key", "num", "seq"), "rows": ("key", "num", "text", "seq", "del")}
    facts = made.stream(
        "facts", _files("facts", *columns["facts"]), key=["key"], value=["num"], timestamp="seq", partitions=partitions
    )
    rows = made.table(
        "rows",
        _files("rows", *columns["rows"]),
        key=["key"],
        value=["num", "text"],
        timestamp="seq",
        tombstone="del = 1",
        partitions=partitions,
    )
    select = {"fact": "left.num", "row": "right.num", "text": "right.text"}
    result = facts.left_join(rows, "looked_up", select=select)
    return Workload(columns, result, "SELECT count(row), sum(fact * (row + 1)) FROM {rows}")


WORKLOADS = {"fk": fk, "ss": ss, "st": st}
