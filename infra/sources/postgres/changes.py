"""Changes of one table in the order of the commits, as rows to be landed: whole transactions between two positions.

| in the log | landed |
|---|---|
| insert, update, delete of the table | a row of op i, u, d; for a deleted row, the columns in the log |
| an update of the key | d with the old row, then i with the new one |
| a truncate | nothing; later rows have the next ``file_rank``, and its place is in `Emptied` |
| a change while an earlier column had another name | nothing: it is refused |
| a change of another table, or of a transaction outside | nothing |

An unchanged large value (TOAST) is not in the log. With REPLICA IDENTITY FULL the old row has it; otherwise the row
names the key from which it has to be fetched: its own, or the one that it had when the value was last written. Only
updates of the key are tracked here; all other state is computed by Spark. Held by
``tests/infra/sources/postgres/test_changes.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rivermeet.infra.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Change,
    Relation,
    Row,
    Truncate,
    decode_message,
    relation_of,
)
from rivermeet.infra.postgres.refusals import TableAlteredError
from rivermeet.infra.postgres.wal_range import WalRange
from rivermeet.infra.sources.postgres.landing import Landed

Texts = list[str | None]
Key = tuple[str | None, ...]


class Emptied(NamedTuple):
    """A truncate: its place between the rows, and the time (ms) and position of its commit."""

    file_rank: int
    timestamp: int
    lsn: int


class Lineage(NamedTuple):
    """The row whose earlier values a row has: the one under a key, or a later one under the same key."""

    key: Key
    branch: int


@dataclass
class Changes:
    """Decodes the changes of a table in the planned range of commits.

    ``columns`` and ``key`` are the declared columns and the identifying ones, ``kept`` those that the table has before
    and after the range. ``unchanged`` are the numbers of columns whose values have to be fetched.
    """

    planned: WalRange
    columns: Sequence[str]
    key: Sequence[str]
    kept: Collection[str] = ()
    unchanged: set[int] = field(default_factory=set)
    emptied: list[Emptied] = field(default_factory=list)
    _places: Sequence[int | None] = ()
    _identity: Sequence[int] = ()
    _moved: dict[Key, Lineage] = field(default_factory=dict)
    _branches: int = 0

    def rows(self, messages: Iterable[bytes]) -> Iterator[Landed]:
        """The rows of all messages of the plugin; TableAlteredError if one lacks a column that had another name."""
        begin, block, row = Begin(-1, 0, 0), 0, 0
        for data in messages:
            kind = data[:1]
            if kind in b"IUD" and (relation_of(data) != self.planned.relation or not self._within(begin)):
                continue
            message = decode_message(data)
            if isinstance(message, Begin):
                begin, block, row = message, block + 1, 0
            elif isinstance(message, Relation) and message.oid == self.planned.relation:
                places = {name: at for at, name in enumerate(message.columns)}
                for column in self.kept:
                    if column not in places and self._within(begin):
                        raise TableAlteredError(
                            f"table '{self.planned.table}': column '{column}' had another name for a while",
                            table=self.planned.table,
                            column=column,
                        )
                # A column that was added later has no place.
                self._places = [places.get(column) for column in self.columns]
                self._identity = [self.columns.index(column) for column in self.key]
            elif isinstance(message, Truncate) and self.planned.relation in message.oids and self._within(begin):
                self.emptied.append(Emptied(2 * len(self.emptied) + 1, begin.time_us // 1000, begin.lsn))
            elif isinstance(message, Change):
                done = [self._land(begin, block, at, *parts) for at, parts in enumerate(self._split(message), row)]
                row += len(done)
                yield from done

    def _within(self, begin: Begin) -> bool:
        start, end = self.planned.start, self.planned.end
        assert start is not None and end is not None
        return start <= begin.lsn < end

    def _split(self, change: Change) -> Iterator[tuple[str, Texts, list[int]]]:
        old = self._texts(change.old)[0] if change.old is not None else None
        if change.new is None:
            assert old is not None
            yield "d", old, []
            return
        texts, left_out = self._texts(change.new)
        unchanged: list[int] = []
        for at in left_out:
            if old is not None and (change.whole or self.columns[at] in self.key):
                texts[at] = old[at]
            else:
                unchanged.append(at)
        self.unchanged.update(unchanged)
        if old is None or self._key(old) == self._key(texts):
            yield change.op, texts, unchanged
            return
        if unchanged:
            self._move(self._key(old), self._key(texts))
        yield "d", old, []
        yield "i", texts, unchanged

    def _move(self, old: Key, new: Key) -> None:
        self._moved[new] = self._moved.get(old, Lineage(old, 0))
        self._branches += 1
        self._moved[old] = Lineage(old, self._branches)

    def _texts(self, row: Row) -> tuple[Texts, list[int]]:
        texts: Texts = []
        left_out: list[int] = []
        for number, at in enumerate(self._places):
            value = row[at] if at is not None else None
            if value is UNCHANGED:
                left_out.append(number)
            texts.append(value.decode() if isinstance(value, bytes) else None)
        return texts, left_out

    def _key(self, texts: Texts) -> Key:
        return tuple([texts[at] for at in self._identity])

    def _land(self, begin: Begin, block: int, row: int, op: str, texts: Texts, unchanged: list[int]) -> Landed:
        lineage = self._moved.get(self._key(texts)) if self._moved else None
        return Landed(
            2 * len(self.emptied),
            block,
            row,
            op,
            begin.lsn,
            begin.time_us // 1000,
            begin.xid,
            unchanged or None,
            lineage.key if lineage is not None else None,
            lineage.branch if lineage is not None else 0,
            texts,
        )
