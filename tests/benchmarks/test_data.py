"""The workloads are the same numbers everywhere, or no two results could be compared."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.data import WORKLOADS, Size, recut, write

SMALL = Size(left=2_000, right=200, epochs=2, changes=100)
KNOWN: dict[str, tuple[list[int], int]] = {
    "fk": ([2200, 100, 100], 3402870681),
    "ss": ([1401, 1402], 761178348),
    "st": ([200, 1200, 1200], 114993216),
}


@pytest.mark.parametrize("workload", KNOWN)
def test_the_records_are_known(workload: str) -> None:
    epochs = list(WORKLOADS[workload](SMALL))
    numbers = [np.concatenate([epoch[name] for epoch in epochs]).astype("int64") for name in ("ts", "key", "num")]
    found = ([len(epoch["seq"]) for epoch in epochs], zlib.crc32(b"".join(column.tobytes() for column in numbers)))
    assert found == KNOWN[workload]


def test_arrival_goes_on_from_epoch_to_epoch() -> None:
    for workload in WORKLOADS.values():
        arrived = np.concatenate([epoch["seq"] for epoch in workload(SMALL)])
        assert (arrived == np.arange(len(arrived))).all()


@pytest.mark.parametrize("epochs", [1, 5])
def test_another_cut_has_the_same_records_in_the_same_order(tmp_path: Path, epochs: int) -> None:
    count = write("fk", tmp_path, SMALL)
    recut(tmp_path, epochs)
    pieces = [pq.read_table(file) for file in sorted(tmp_path.glob("*"))]
    assert [piece.num_rows for piece in pieces] == [count // epochs] * epochs
    assert np.concatenate([piece["seq"].to_numpy() for piece in pieces]).tolist() == list(range(count))


def test_orders_that_arrive_in_pieces_are_as_many() -> None:
    whole, pieces = (list(WORKLOADS["fk"](replace(SMALL, pieces=count))) for count in (1, 3))
    assert [len(epoch["seq"]) for epoch in pieces] == [866, 667, 667, 100, 100]
    for name in ("seq", "ts", "side", "key"):
        first, parts = whole[0][name], np.concatenate([epoch[name] for epoch in pieces[:3]])
        assert (first == parts).all(), name


def test_recent_changes_are_of_the_newest_orders_and_of_customers_that_were_there() -> None:
    backlog, *changes = WORKLOADS["fk"](replace(SMALL, recent=0.1))
    ordered = backlog["side"] == 0
    # One of 205 customers for each ten orders, and two in a hundred that are never there.
    assert (backlog["fk"][ordered] <= backlog["key"][ordered] // 9).all()
    for epoch in changes:
        of_order = epoch["side"] == 0
        assert epoch["key"][of_order].min() >= 1_800
        assert epoch["key"][~of_order].min() >= 184
        named = epoch["fk"][of_order & (epoch["fk"] >= 0)]
        assert named.min() < 100, "they name any customer"
