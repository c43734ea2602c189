"""stream ⋈ global table through the real epochs: both orders of loading, nasty script, histories, the invoice chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rivermeet.joins.reference.records import Record
from rivermeet.joins.stream_global.reference import StreamGlobalJoin
from rivermeet.pipelines import Files, Pipeline
from tests.golden.load import Case, cases
from tests.joins.epochs.batch import EACH, TYPES, Batch, by_partition, run, stream_and_global
from tests.joins.foreign_key.test_foreign_key import BEFORE_THE_BAR, set_apart
from tests.reference.histories import NASTY_GLOBAL, foreign_key_of, in_epoch, random_histories, records_of
from tests.world import World

Make = Callable[..., World]


def expected(how: str, batch: Batch, case: int, bootstrap: str) -> list[Any]:
    join = StreamGlobalJoin(how, foreign_key_of)
    at = batch.offsets(case)
    order = "epoch" if bootstrap == "epoch" else "given"
    return [
        (row.key, row.value, row.timestamp, at[row.trigger])
        for piece in batch.pieces(case)
        for row in in_epoch(join, piece, order)
    ]


def check(make: Make, how: str, bootstrap: Any, inputs: Sequence[Sequence[Record]], epochs: int) -> None:
    left, right = stream_and_global()
    verb = {"inner": left.join, "left": left.left_join}[how]
    options: dict[str, Any] = {"key": BEFORE_THE_BAR, "bootstrap": bootstrap}
    node = verb(right, "ab", select={"l": "left.v", "r": "right.v"}, **options)
    batch = Batch([set_apart(case, history) for case, history in enumerate(inputs)], epochs)
    rows = by_partition(run(make(f"{how}-{bootstrap}-{epochs}", a=TYPES, b=TYPES), node, batch))
    for case in range(len(inputs)):
        found = [
            (
                row["key"] and row["key"]["k"],
                (row["value"]["l"], row["value"]["r"]),
                row["timestamp"],
                (row["trigger"]["side"], row["trigger"]["offset"]),
            )
            for row in rows.get(case, [])
        ]
        assert found == expected(how, batch, case, bootstrap), (how, bootstrap, epochs, case)


@pytest.mark.parametrize(
    ("how", "bootstrap", "epochs"), [("inner", "epoch", 3), ("left", "timestamp", 3), ("left", "epoch", 1)]
)
def test_nasty_script_and_random_histories(world: Make, how: str, bootstrap: str, epochs: int) -> None:
    inputs = [records_of(NASTY_GLOBAL), *random_histories(3, 59, "stream_global")]
    check(world, how, bootstrap, inputs, epochs)


INVOICE = cases("global", "3.1")


def test_printed_invoices_are_what_the_rows_below_say() -> None:
    assert {case.how for case in INVOICE} == {"inner", "left"}


@pytest.mark.parametrize("epochs", [3, pytest.param(EACH, marks=[pytest.mark.prove, pytest.mark.timeout(900)])])
@pytest.mark.parametrize("case", INVOICE, ids=lambda case: case.id)
def test_invoice_through_two_chained_look_ups(world: Make, case: Case, epochs: int) -> None:
    """KIP-99's shape; the order of the table's steps stands, so updates are interleaved by timestamp."""
    pipeline = Pipeline("invoice_golden")
    files = Files("none/*.json", "json", {"k": "STRING", "a": "STRING", "p": "STRING", "ts": "BIGINT"})
    options: dict[str, Any] = {"key": ["k"], "timestamp": "ts", "value": ["a", "p"]}
    purchase = pipeline.stream("purchase", files, partitions=1, **options)
    product = pipeline.global_table("product", files, **options)
    customer = pipeline.global_table("customer", files, **options)
    verb = "join" if case.how == "inner" else "left_join"
    priced = getattr(purchase, verb)(
        product,
        "priced",
        key="p",
        bootstrap="timestamp",
        select={"a": "left.a", "product": "right.a", "price": "right.p"},
    )
    node = getattr(priced, verb)(
        customer,
        "invoice",
        key="a",
        bootstrap="timestamp",
        select={"product": "left.product", "price": "left.price", "customer": "right.a", "address": "right.p"},
    )
    both = "key STRUCT<k: STRING>, value STRUCT<a: STRING, p: STRING>"
    made = world(f"invoice-{case.how}-{epochs}", purchase=both, product=both, customer=both)
    columns = {"purchase": ("account_id", "product_id"), "product": ("name", "price"), "customer": ("name", "address")}
    nodes = {"purchase": purchase, "product": product, "customer": customer}
    for name in nodes:
        made.publish(nodes[name], [])
    steps = case.records
    size = 1 if epochs == EACH else -(-len(steps) // epochs)
    for start in range(0, len(steps), size):
        for r in steps[start : start + size]:
            picked = None if r.value is None else tuple(str(r.value[c]) for c in columns[r.side])
            made.publish(nodes[r.side], [((r.key,), picked, r.timestamp, 0)])
        made.run(priced)
        made.run(node)
    rows = [(row["key"]["k"], row["value"]) for row in made.rows(node)]
    assert rows == [(e.key, _of(e.value)) for e in case.expected]


def _of(value: dict[str, Any]) -> dict[str, Any]:
    texts = {c: None if value[c] is None else str(value[c]) for c in ("product", "price", "customer", "address")}
    return texts
