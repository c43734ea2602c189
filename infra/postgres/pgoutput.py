"""Messages of the plugin pgoutput, protocol 1, as values.

    B  commit LSN, time, transaction            the transaction begins; only its changes follow
    R  relation 16384: public.orders, id, body  the columns, before the relation's first change and after it was altered
    I  relation, new row                        U  relation, old row or its identity or nothing, new row
    D  relation, old row or its identity        T  truncated relations
    C  the transaction ends

A value is text in bytes, None for null, or `UNCHANGED`: a large value (TOAST) that was not changed is omitted. Held by
``tests/infra/postgres/test_pgoutput.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from struct import unpack_from
from typing import Literal

EPOCH_US = 946_684_800_000_000
"""Microseconds from 1970 to 2000, PostgreSQL's epoch."""


class Mark(Enum):
    """Placeholder of a value that the log omits."""

    UNCHANGED = "u"


UNCHANGED = Mark.UNCHANGED
Value = bytes | None | Mark
Row = list[Value]


@dataclass(frozen=True)
class Begin:
    """A transaction begins: position and time (us since 1970) of its commit, and its number."""

    lsn: int
    time_us: int
    xid: int


@dataclass(frozen=True)
class Relation:
    """Columns of a table, in the order of its rows from now on."""

    oid: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """An inserted, updated or deleted row.

    ``old`` has all columns if it is ``whole``; else it has those of the replica identity.
    """

    op: Literal["i", "u", "d"]
    oid: int
    old: Row | None
    new: Row | None
    whole: bool = False


@dataclass(frozen=True)
class Truncate:
    """Truncated tables."""

    oids: tuple[int, ...]


Message = Begin | Relation | Change | Truncate


def relation_of(data: bytes) -> int:
    """The table of a change, without decoding its row."""
    return unpack_from(">I", data, 1)[0]


def decode_message(data: bytes) -> Message | None:
    """The message; None for one without a change."""
    kind = data[:1]
    if kind == b"I":
        return Change("i", relation_of(data), None, _row(data, 6)[0])
    if kind == b"U":
        old, at, tag = None, 5, data[5:6]
        if tag in (b"K", b"O"):
            old, at = _row(data, 6)
        return Change("u", relation_of(data), old, _row(data, at + 1)[0], tag == b"O")
    if kind == b"D":
        return Change("d", relation_of(data), _row(data, 6)[0], None, data[5:6] == b"O")
    if kind == b"B":
        lsn, time_us, xid = unpack_from(">QqI", data, 1)
        return Begin(lsn, time_us + EPOCH_US, xid)
    if kind == b"R":
        return _relation(data)
    if kind == b"T":
        count, _ = unpack_from(">IB", data, 1)
        return Truncate(unpack_from(f">{count}I", data, 6))
    return None


def _relation(data: bytes) -> Relation:
    # Its number, the names of its schema and of itself, its identity, and how many columns.
    at = data.index(0, data.index(0, 5) + 1) + 2
    (count,) = unpack_from(">H", data, at)
    at += 2
    columns: list[str] = []
    for _ in range(count):
        end = data.index(0, at + 1)
        columns.append(data[at + 1 : end].decode())
        at = end + 9
    return Relation(relation_of(data), tuple(columns))


def _row(data: bytes, at: int) -> tuple[Row, int]:
    (count,) = unpack_from(">H", data, at)
    at += 2
    row: Row = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t: text follows
            (size,) = unpack_from(">I", data, at)
            at += 4
            row.append(data[at : at + size])
            at += size
        else:
            row.append(None if kind == 0x6E else UNCHANGED)
    return row, at
