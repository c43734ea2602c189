"""Messages of the log as rows that land: which, in which order, and from where what is left out has to be fetched."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

from rivermeet.infra.epochs.plan import WalRange
from rivermeet.infra.postgres.pgoutput import EPOCH_US
from rivermeet.infra.sources.postgres.changes import Changes, Emptied
from rivermeet.infra.sources.postgres.landing import Landed

OURS, OTHER = 7, 8
U = "unchanged"
Value = str | None


def row(*values: Value) -> bytes:
    parts = [
        b"n" if value is None else b"u" if value == U else b"t" + pack(">I", len(value)) + value.encode()
        for value in values
    ]
    return pack(">H", len(values)) + b"".join(parts)


def begin(lsn: int) -> bytes:
    return b"B" + pack(">QqI", lsn, lsn * 1000 - EPOCH_US, 1)


def relation(*columns: str, oid: int = OURS) -> bytes:
    described = b"".join(b"\0" + name.encode() + b"\0" + pack(">Ii", 25, -1) for name in columns)
    return b"R" + pack(">I", oid) + b"public\0t\0d" + pack(">H", len(columns)) + described


def insert(*values: Value, oid: int = OURS) -> bytes:
    return b"I" + pack(">I", oid) + b"N" + row(*values)


def update(*values: Value, old: tuple[Value, ...] | None = None, tag: bytes = b"K") -> bytes:
    before = b"" if old is None else tag + row(*old)
    return b"U" + pack(">I", OURS) + before + b"N" + row(*values)


def delete(*values: Value) -> bytes:
    return b"D" + pack(">I", OURS) + b"K" + row(*values)


def truncate(*oids: int) -> bytes:
    return b"T" + pack(">IB", len(oids), 0) + pack(f">{len(oids)}I", *oids)


IDB = relation("id", "body")


def decoder(start: int = 0, end: int = 1000) -> Changes:
    return Changes(WalRange(table="s.public.t", relation=OURS, start=start, end=end), ["id", "body"], ("id",))


def shown(rows: Iterator[Landed]) -> list[tuple[int, int, str, tuple[Value, ...]]]:
    return [(r.block, r.row, r.op, tuple(r.texts)) for r in rows]


def test_rows_of_our_table_in_transactions_of_the_range() -> None:
    messages = [
        *(begin(99), IDB, insert("0", "early")),
        *(begin(100), insert("1", "a"), insert("9", "b", oid=OTHER), update("1", None)),
        *(begin(150), delete("1", None)),
        *(begin(200), insert("2", "late")),
    ]
    found = list(decoder(100, 200).rows(messages))
    assert shown(iter(found)) == [(2, 0, "i", ("1", "a")), (2, 1, "u", ("1", None)), (3, 0, "d", ("1", None))]
    assert [(r.lsn, r.timestamp) for r in found] == [(100, 100), (100, 100), (150, 150)]


def test_an_update_of_the_key_is_two_rows() -> None:
    messages = [begin(1), IDB, update("2", "a", old=("1", None)), update("2", "b", old=("2", "a"), tag=b"O")]
    assert shown(decoder().rows(messages)) == [
        (1, 0, "d", ("1", None)),
        (1, 1, "i", ("2", "a")),
        (1, 2, "u", ("2", "b")),
    ]


def test_columns_come_and_go() -> None:
    messages = [
        *(begin(1), relation("id"), insert("1")),
        *(begin(2), relation("more", "body", "id"), insert("m", "b", "2")),
    ]
    assert shown(decoder().rows(messages)) == [(1, 0, "i", ("1", None)), (2, 0, "i", ("2", "b"))]


def test_an_old_row_has_what_is_left_out() -> None:
    decodes = decoder()
    whole, identity = decodes.rows(
        [begin(1), IDB, update("1", U, old=("1", "before"), tag=b"O"), update(U, "b", old=("k", None))]
    )
    assert (whole.texts, whole.unchanged) == (["1", "before"], None)
    assert (identity.texts, identity.unchanged) == (["k", "b"], None)
    assert decodes.unchanged == set()


def test_values_go_with_the_row_when_its_key_changes() -> None:
    decodes = decoder()
    messages = [
        *(begin(1), IDB, update("1", U)),
        *(begin(2), update("2", U, old=("1", None)), update("3", U, old=("2", None)), update("3", U)),
        *(begin(3), insert("1", "new"), update("1", U), update("2", U, old=("1", None))),
    ]
    fetched = [(r.texts[0], r.earlier_key, r.branch) for r in decodes.rows(messages) if r.op != "d"]
    assert fetched == [
        ("1", None, 0),
        ("2", ("1",), 0),
        ("3", ("1",), 0),
        ("3", ("1",), 0),
        ("1", ("1",), 1),
        ("1", ("1",), 1),
        ("2", ("1",), 1),
    ]
    assert decodes.unchanged == {1}


def test_a_truncate_lies_between_rows() -> None:
    decodes = decoder()
    messages = [
        *(begin(1), IDB, insert("1", "a"), truncate(OTHER), truncate(OTHER, OURS), insert("1", "b")),
        *(begin(2), truncate(OURS)),
    ]
    assert [(r.file_rank, r.texts[1]) for r in decodes.rows(messages)] == [(0, "a"), (2, "b")]
    assert decodes.emptied == [Emptied(1, 1, 1), Emptied(3, 2, 2)]
