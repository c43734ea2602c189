"""The changes of a table of PostgreSQL that one epoch reads, and what its catalog said of the table then.

Positions in its log are one number here; PostgreSQL prints them as two hexadecimal numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from rivermeet.infra.source_range import Origin, SourceRange


class KnownColumn(BaseModel, frozen=True, extra="forbid"):
    """A column of a table of PostgreSQL: its number, its type and the type's modifier, and who wrote it there last."""

    number: int
    type: int
    modifier: int
    written_by: int


class KnownRelation(BaseModel, frozen=True, extra="forbid"):
    """A table of PostgreSQL or one of its partitions: its file, and who wrote the link that makes it a partition."""

    name: str
    file: int
    link: int | None = None


class KnownTable(BaseModel, frozen=True, extra="forbid"):
    """What the catalog of PostgreSQL said of a table (``infra/postgres/catalog.py``).

    Transactions before ``horizon`` had ended by then. ``types`` are parts of the columns' types, ``relations`` the
    table and its partitions by their numbers, and ``published`` the rows of the catalog that publish it.
    """

    horizon: int
    columns: dict[str, KnownColumn]
    types: dict[str, str]
    relations: dict[int, KnownRelation]
    published: tuple[str, ...]


class WalRange(SourceRange):
    """The changes of a table of PostgreSQL whose transactions' commits begin in ``[start, end)`` of the log.

    Positions are LSNs as numbers; ``end`` is where the next range starts. Without them a snapshot is read:
    its position is not known before, and is in the epoch log afterwards. ``system`` and ``timeline``
    distinguish the server from another or restored one, ``relation`` the table from a later one of its name, and
    ``published`` its place in the publication from one that it was given again. ``known`` is what the catalog said
    before the end was fixed; plans of before it was kept have none. ``at`` is the server's clock when the
    end was fixed (ms), ``rows`` about how many rows are read.
    """

    kind: ClassVar[str] = "wal"
    is_counted: ClassVar[bool] = True
    table: str
    system: str = ""
    timeline: int = 0
    slot: str = ""
    publication: str = ""
    relation: int = 0
    published: int | None = None
    known: KnownTable | None = None
    start: int | None = None
    end: int | None = None
    at: int = 0
    rows: int = 0

    @property
    def position(self) -> int:
        """Where the next range starts; only of one that was read."""
        assert self.end is not None, "a snapshot has a position once it was taken"
        return self.end

    @property
    def records(self) -> int:
        """About how many rows are read."""
        return self.rows

    @property
    def description(self) -> str:
        """Which table, and how much of the log."""
        if self.start is None or self.end is None:
            return f"a snapshot of table '{self.table}'"
        return f"table '{self.table}' in {self.end - self.start:,} bytes of its database's log"

    def parts(self) -> Iterator[str]:
        """Nothing: what is read is said in one line."""
        yield from ()

    def metadata(self, now_ms: float) -> Mapping[str, Any]:
        """Bytes of the log."""
        return {"wal_bytes_in": (self.end or 0) - (self.start or 0)}

    @classmethod
    def place(cls, file: str, line: int | None) -> str:
        """Table and commit."""
        return f"table '{file}', commit {lsn_text(line or 0)}"

    def among(self, epoch: int) -> Origin:
        """Before which commit it was read."""
        if self.end is None:
            return Origin(None, None, f"epoch {epoch}")
        return Origin(self.table, None, f"table '{self.table}', a commit before {lsn_text(self.end)}")


def lsn_text(lsn: int) -> str:
    """A position as printed by PostgreSQL.

    Examples
    --------
    >>> lsn_text(22186192)
    '0/15288D0'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """A position as a number.

    Examples
    --------
    >>> lsn_number("0/15288D0")
    22186192
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
