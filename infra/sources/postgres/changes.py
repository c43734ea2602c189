"""Changes of one table in the order of the commits, as rows that land: whole transactions between two positions.

| in the log | lands |
|---|---|
| insert, update, delete of the table | a row of op i, u, d; of a deleted row what the log has of it |
| an update of the key | d with the old row, then i with the new one |
| a truncate | nothing; what comes after it has the next ``file_rank``, and where it was is in `Emptied` |
| a change while a column of before had another name | nothing: it is refused |
| a change of another table, or of a transaction outside | nothing |

A value that lies out of line and was not changed is not in the log. With REPLICA IDENTITY FULL the old row has it; else
the row says from which key it has to be fetched: its own, or the one that it had when the value was last written. Of an
update of the key alone that is noted here; all other state is Spark's. Held by
``tests/infra/sources/postgres/test_changes.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rivermeet.infra.epochs.plan import WalRange
from rivermeet.infra.postgres.pgoutput import UNCHANGED, Begin, Change, Relation, Row, Truncate, decoded, relation_of
from rivermeet.infra.postgres.refusals import TableAlteredError
from rivermeet.infra.sources.postgres.landing import Landed

Texts = list[str | None]
Key = tuple[str | None, ...]


class Emptied(NamedTuple):
    """A truncate: its place between the rows, and the time (ms) and position of its commit."""

    file_rank: int
    timestamp: int
    lsn: int


class Lineage(NamedTuple):
    """Which row's earlier values a row has: of the one under a key, or of what came there after it was left."""

    key: Key
    branch: int


@dataclass
class Changes:
    """Decodes the changes of a table.

    Attributes
    ----------
    planned
        The table and the range of commits.
    columns, key
        Names of the declared columns, and of those that identify a row.
    kept
        Those of the columns that the table had before the range, and has after it.
    unchanged
        Numbers of the columns whose values have to be fetched.
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
        """The rows of all that the plugin said.

        Raises
        ------
        TableAlteredError
            Where a row lacks a column that has another name there.
        """
        begin, block, row = Begin(-1, 0, 0), 0, 0
        for data in messages:
            kind = data[:1]
            if kind in b"IUD" and (relation_of(data) != self.planned.relation or not self._within(begin)):
                continue
            message = decoded(data)
            if isinstance(message, Begin):
                begin, block, row = message, block + 1, 0
            elif isinstance(message, Relation) and message.oid == self.planned.relation:
                places = {name: at for at, name in enumerate(message.columns)}
                for column in self.kept:
                    if column not in places and self._within(begin):
                        raise TableAlteredError(
                            f"table '{self.planned.table}': column '{column}' had another name for a while"
                        )
                # A column that the table got later has no place.
                self._places = [places.get(column) for column in self.columns]
                self._identity = [self.columns.index(column) for column in self.key]
            elif isinstance(message, Truncate) and self.planned.relation in message.oids and self._within(begin):
                self.emptied.append(Emptied(2 * len(self.emptied) + 1, begin.time_us // 1000, begin.lsn))
            elif isinstance(message, Change):
                done = [self._landed(begin, block, at, *parts) for at, parts in enumerate(self._done(message), row)]
                row += len(done)
                yield from done

    def _within(self, begin: Begin) -> bool:
        start, end = self.planned.start, self.planned.end
        assert start is not None and end is not None
        return start <= begin.lsn < end

    def _done(self, change: Change) -> Iterator[tuple[str, Texts, list[int]]]:
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

    def _landed(self, begin: Begin, block: int, row: int, op: str, texts: Texts, unchanged: list[int]) -> Landed:
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
