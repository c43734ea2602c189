"""The workloads' records, seeded: the same numbers on every machine, a Parquet file an epoch.

    python -m benchmarks.data fk FOLDER --left 1000000 --right 100000 --epochs 5

- fk: epoch 0 has all customers, then all orders; with ``pieces``, the orders come in so many epochs. Each later epoch
  has changes. 80 % are orders (a quarter of them new; of the others a third gets another customer), 15 % customers, 5 %
  deletes. 2 % of the customers that are named do not exist, and 5 % of the times lie up to a minute back. With
  ``recent``, changes are of that share of the orders and customers, the newest ones, and an order that is loaded at
  first names a customer who was there before it: customers come as evenly as orders do. New customers of orders are
  drawn from all of them.
- ss: impressions and clicks, in as many epochs as asked. Half of the clicks follow an impression by up to 12 s; 10 % of
  all come up to 5 s late, 1 % come 40 to 60 s late. With ``hot``, that share of the impressions and of the clicks that
  follow none has one key, time passes ten thousand times slower, so that the pairs stay few, and none is too late.
- st: epoch 0 has the table; later ones have facts and a fifth as many changes of the table, 2 % of them deletes.
- q3, q8, q20: the events of NEXMark that these queries read; epoch 0 has a backlog of ``left`` events, each later one
  ``changes``. 1,000,000 events of q3 or q8 are 12.5 million without the bids.

Columns: ``seq`` (order of arrival over both sides), ``ts`` (event time, ms), ``side``, and as the workload has them
``key``, ``num``, ``fk``, ``text``, ``del``, or what NEXMark calls them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.nexmark.events import events
from benchmarks.nexmark.queries import QUERIES
from rivermeet.assets.bench.run import epochs_of

START = 1_700_000_000_000
"""Event time of the first record, ms."""
SLOWER = 10_000
Columns = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How much of it.

    Attributes
    ----------
    left
        Orders, records a side, or NEXMark's events before the changes.
    right
        Customers or keys.
    epochs, changes
        Epochs after the first, where that is a backlog, and changes in each.
    hot
        Share of ``ss`` that has one key, 0 for none; None for the workload as it is known.
    pieces
        Epochs in which the orders of ``fk`` arrive at first.
    recent
        Share of the orders and customers of ``fk`` that change; None: all of them.
    """

    left: int = 1_000_000
    right: int = 100_000
    epochs: int = 5
    changes: int = 10_000
    seed: int = 42
    hot: float | None = None
    pieces: int = 1
    recent: float | None = None


def fk(size: Size) -> Iterator[Columns]:
    """Orders of customers."""
    rng = np.random.default_rng(size.seed)
    orders, customers, changes = size.left, size.right, size.changes
    ids = int(customers * 1.02) + 1
    both, owners = orders + customers, list[Any]()
    bounds = [0, *(customers + orders * piece // size.pieces for piece in range(1, size.pieces + 1))]
    for start, end in pairwise(bounds):
        named = customers if start == 0 else 0
        ordered = end - start - named
        first = max(start - customers, 0)
        there = ids if size.recent is None else 1 + np.arange(first, first + ordered) * (ids - 1) // orders
        owners.append(rng.integers(0, there, ordered))
        yield {
            "seq": np.arange(start, end),
            "ts": START + np.arange(start, end) // 100,
            "side": np.r_[np.ones(named, np.int8), np.zeros(ordered, np.int8)],
            "key": np.r_[np.arange(named), np.arange(first, first + ordered)],
            "fk": np.r_[np.full(named, -1), owners[-1]],
            "num": np.r_[rng.integers(0, 10, named), rng.integers(1, 10_000, ordered)],
            "text": np.r_[_texts(rng, named), _texts(rng, ordered)],
            "del": np.zeros(end - start, np.int8),
        }
    arrived, clock, unused = both, START + both // 100, orders
    oldest = [0, 0] if size.recent is None else [int(many * (1 - size.recent)) for many in (orders, ids)]
    known = np.concatenate([*owners, np.full(changes * size.epochs, -1)])
    for _ in range(size.epochs):
        kind = rng.random(changes)
        of_customer = (kind >= 0.80) & (kind < 0.95) | (kind >= 0.995)
        gone, new = kind >= 0.95, kind < 0.20
        key, named = np.empty(changes, np.int64), np.full(changes, -1, np.int64)
        key[new] = unused + np.arange(new.sum())
        unused += int(new.sum())
        updated = ~new & ~of_customer
        key[updated] = rng.integers(oldest[0], orders, updated.sum())
        key[of_customer] = rng.integers(oldest[1], ids, of_customer.sum())
        drawn, moves = rng.integers(0, ids, changes), rng.random(changes) < 1 / 3
        put = ~of_customer & ~gone
        stays = put & ~new & ~moves
        named[put] = drawn[put]
        before = known[key[stays]]
        named[stays] = np.where(before >= 0, before, drawn[stays])
        known[key[put]] = named[put]
        number = np.where(of_customer, rng.integers(0, 10, changes), rng.integers(1, 10_000, changes))
        back = np.where(rng.random(changes) < 0.05, rng.integers(1, 60_000, changes), 0)
        yield {
            "seq": arrived + np.arange(changes),
            "ts": clock + np.arange(changes) - back,
            "side": of_customer.astype(np.int8),
            "key": key,
            "fk": named,
            "num": number,
            "text": _texts(rng, changes),
            "del": gone.astype(np.int8),
        }
        arrived, clock = arrived + changes, clock + changes


def ss(size: Size) -> Iterator[Columns]:
    """Impressions, and clicks on some of them."""
    rng = np.random.default_rng(size.seed + 1)
    count = size.left
    end = count if size.hot is None else count * SLOWER
    shown = np.sort(rng.integers(0, end, count))
    shown_key = rng.integers(0, size.right, count)
    followed = rng.integers(0, count, count // 2)
    clicked = np.r_[shown[followed] + rng.integers(0, 12_001, count // 2), rng.integers(0, end, count - count // 2)]
    other_key = rng.integers(0, size.right, count - count // 2)
    if size.hot is not None:
        shown_key[rng.random(count) < size.hot] = 0
        other_key[rng.random(count - count // 2) < size.hot] = 0
    clicked_key = np.r_[shown_key[followed], other_key]
    time = np.r_[shown, clicked]
    chance = rng.random(2 * count) if size.hot is None else 0.01 + 0.99 * rng.random(2 * count)
    much, little = rng.integers(40_000, 60_001, 2 * count), rng.integers(1, 5_001, 2 * count)
    arrival = time + np.where(chance < 0.01, much, np.where(chance < 0.11, little, 0))
    order = np.argsort(arrival, kind="stable")
    # Without a tail of late records alone, stream time follows arrival to the end.
    order = order[arrival[order] <= end]
    records: Columns = {
        "seq": np.arange(len(order)),
        "ts": START + time[order],
        "side": np.r_[np.zeros(count, np.int8), np.ones(count, np.int8)][order],
        "key": np.r_[shown_key, clicked_key][order],
        "num": rng.integers(0, 1 << 30, len(order)),
    }
    yield from _pieces(records, size.epochs)


def st(size: Size) -> Iterator[Columns]:
    """Facts, and a table that changes meanwhile."""
    rng = np.random.default_rng(size.seed + 2)
    keys, facts, changes = size.right, size.left, size.left // 5
    yield {
        "seq": np.arange(keys),
        "ts": START + np.arange(keys) // 100,
        "side": np.ones(keys, np.int8),
        "key": np.arange(keys),
        "num": rng.integers(0, 1000, keys),
        "text": _texts(rng, keys),
        "del": np.zeros(keys, np.int8),
    }
    side = np.r_[np.zeros(facts, np.int8), np.ones(changes, np.int8)]
    rng.shuffle(side)
    both = facts + changes
    key = rng.integers(0, int(keys * 1.02), both)
    time = START + keys // 100 + np.arange(both) // 10
    time = time - np.where(rng.random(both) < 0.05, rng.integers(1, 5_000, both), 0)
    records: Columns = {
        "seq": keys + np.arange(both),
        "ts": time,
        "side": side,
        "key": key,
        "num": rng.integers(0, 1000, both),
        "text": _texts(rng, both),
        "del": ((side == 1) & (rng.random(both) < 0.02)).astype(np.int8),
    }
    yield from _pieces(records, size.epochs)


def nexmark(kinds: Sequence[str]) -> Callable[[Size], Iterator[Columns]]:
    """Events of NEXMark of two kinds, left and right."""

    def arrivals(size: Size) -> Iterator[Columns]:
        found = events(kinds, size.left + size.epochs * size.changes, size.seed)
        starts = [0, *(size.left + epoch * size.changes for epoch in range(size.epochs + 1))]
        for start, end in pairwise(starts):
            piece = found.slice(start, end - start)
            yield {name: piece[name] for name in piece.column_names}

    return arrivals


WORKLOADS = {"fk": fk, "ss": ss, "st": st} | {name: nexmark([*query().sides]) for name, query in QUERIES.items()}


def write(workload: str, folder: Path, size: Size) -> int:
    """Write a workload's files; how many records they have."""
    folder.mkdir(parents=True, exist_ok=True)
    records = 0
    for epoch, columns in enumerate(WORKLOADS[workload](size)):
        table = pa.table(columns)
        pq.write_table(table, folder / f"epoch_{epoch:03d}.parquet")
        records += table.num_rows
    return records


def recut(folder: Path, epochs: int) -> None:
    """Cut the records of a folder again, by arrival, so that all who read it get the same epochs."""
    pieces = [records.to_table() for records in epochs_of(folder, epochs)]
    for file in folder.glob("epoch_*.parquet"):
        file.unlink()
    for epoch, records in enumerate(pieces):
        pq.write_table(records, folder / f"epoch_{epoch:03d}.parquet")


def _texts(rng: np.random.Generator, count: int) -> Any:
    return rng.integers(97, 123, size=(count, 32), dtype=np.uint8).view("S32").ravel().astype("U32")


def _pieces(records: Columns, epochs: int) -> Iterator[Columns]:
    bounds = np.linspace(0, len(records["seq"]), epochs + 1).astype(int)
    for start, end in pairwise(bounds):
        yield {name: values[start:end] for name, values in records.items()}


def main() -> None:
    """Write a workload's files as the command line says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("folder", type=Path)
    for name in ("left", "right", "epochs", "changes", "seed", "pieces"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Size, name))
    for name in ("hot", "recent"):
        parser.add_argument(f"--{name}", type=float)
    given = vars(parser.parse_args())
    workload, folder = given.pop("workload"), given.pop("folder")
    print(f"{write(workload, folder, Size(**given)):,} records in {folder}")


if __name__ == "__main__":
    main()
