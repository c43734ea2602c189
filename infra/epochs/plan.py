"""An epoch's plan: what it reads, to the offset and the version. Data, so that it can be kept, shown and run again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Offsets = dict[int, int]
"""Partition to last offset; a partition without records is absent (read it as -1)."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedFile(_Value):
    """A file as it was when it was planned; times in epoch millis, length in bytes.

    ``sha256`` is of a local file. ``duplicate_of`` names a file of the same bytes: this one is not read.
    """

    path: str
    length: int
    modified_ms: int
    sha256: str | None = None
    duplicate_of: str | None = None


class TopicSlice(_Value):
    """The records ``[start, end)`` of each partition of a topic; ``end`` is where the next slice starts.

    ``id`` distinguishes the topic from a later one of its name. Not each offset has a record: transactions and
    compaction leave gaps. ``high`` is the high watermark when it was planned: past ``end`` lies what open transactions
    hold back. ``added`` are partitions that the slice before did not have; ``lost`` is what was gone before it was
    read, ``[start, end)``, and accepted as such. ``times`` are the newest timestamps (ms) below
    ``end`` that the broker has. ``leaders`` are the leader epochs of the partitions at ``end``, and ``since`` those at
    ``start``: by them the broker says whether the records below are those that were read. ``anew`` says whether changes
    of another log than those before are read, and not refused (``infra/sources/kafka/debezium/repeats.py``).
    """

    topic: str
    id: str
    ranges: dict[int, tuple[int, int]]
    high: Offsets = {}
    added: tuple[int, ...] = ()
    lost: dict[int, tuple[int, int]] = {}
    times: dict[int, int] = {}
    leaders: dict[int, int] = {}
    since: dict[int, int] = {}
    anew: bool = False

    @property
    def records(self) -> int:
        """How many records it may hold at most."""
        return sum(end - start for start, end in self.ranges.values())

    @property
    def unread(self) -> dict[int, tuple[int, int]]:
        """The ranges that hold anything."""
        return {partition: (start, end) for partition, (start, end) in self.ranges.items() if end > start}


class VersionRange(_Value):
    """The versions ``[start, end]`` of a Delta table; ``end + 1`` is where the next range starts.

    ``id`` distinguishes the table from a later one at its place. ``snapshot`` is a version that is read whole before
    the others. ``passed`` are versions of the range that are not read, and ``lost`` those that were gone before they
    were, ``[first, last]``; both were accepted. ``rows`` is about how many rows are read.
    """

    path: str
    id: str
    start: int
    end: int
    snapshot: int | None = None
    passed: tuple[int, ...] = ()
    lost: tuple[int, int] | None = None
    rows: int = 0

    @property
    def unread(self) -> bool:
        """Whether it holds any version."""
        return self.snapshot is not None or self.end >= self.start

    @property
    def shown(self) -> str:
        """What is read, in words."""
        whole = [] if self.snapshot is None else [f"version {self.snapshot} whole"]
        some = [f"versions {self.start} to {self.end}"] if self.end >= self.start else []
        return f"{', '.join([*whole, *some]) or 'no version'} of Delta table '{self.path}'"


class KnownColumn(_Value):
    """A column of a table of PostgreSQL: its number, its type and the type's modifier, and who wrote it there last."""

    number: int
    type: int
    modifier: int
    written_by: int


class KnownRelation(_Value):
    """A table of PostgreSQL or one of its partitions: its file, and who wrote the link that makes it a partition."""

    name: str
    file: int
    link: int | None = None


class KnownTable(_Value):
    """What the catalog of PostgreSQL said of a table (``infra/postgres/catalog.py``).

    Transactions before ``horizon`` had ended by then. ``types`` are parts of the columns' types, ``relations`` the
    table and its partitions by their numbers, and ``published`` the rows of the catalog that publish it.
    """

    horizon: int
    columns: dict[str, KnownColumn]
    types: dict[str, str]
    relations: dict[int, KnownRelation]
    published: tuple[str, ...]


class WalRange(_Value):
    """The changes of a table of PostgreSQL whose transactions' commits begin in ``[start, end)`` of the log.

    Positions are LSNs as numbers; ``end`` is where the next range starts. Without them the table is read as it stands:
    where in the log that is, nobody knows before, and the epoch log says afterwards. ``system`` and ``timeline``
    distinguish the server from another or restored one, ``relation`` the table from a later one of its name, and
    ``published`` its place in the publication from one that it was given anew. ``known`` is what the catalog said
    before the end was fixed; plans of before it was kept have none. ``at`` is the server's clock when the
    end was fixed (ms), ``rows`` about how many rows are read.
    """

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


class InputSlice(_Value):
    """The records ``(after, upto]`` of one input, in its changelog at ``version``.

    ``table_version`` pins the folded table that holds the input's records up to ``table_ends``; None means that
    state is folded from the changelog alone. ``incarnation`` is the input's: offsets of another one mean other records.
    """

    version: int
    after: Offsets
    upto: Offsets
    table_version: int | None = None
    table_ends: Offsets = {}
    incarnation: int = 1

    @property
    def records(self) -> int:
        """How many records the slice holds: offsets are dense."""
        return sum(end - self.after.get(p, -1) for p, end in self.upto.items())

    @property
    def consumed(self) -> int:
        """How many records of the input's incarnation have been read with it."""
        return sum(end + 1 for end in self.upto.values())


class Skipped(_Value):
    """A record of an input that no row can be made of, and the error that says so (`assets.epoch.failing_records`)."""

    side: str
    partition: int
    offset: int
    reason: str


class EpochPlan(_Value):
    """All that one epoch of one node depends on.

    ``previous_epoch`` is the last committed one of the incarnation (0: none); ``ends`` and ``stream_time`` (ms) are the
    output's before the epoch, ``output_version`` its changelog's version then (None: not written yet). An incarnation
    begins with epoch ``since``, which replaces all that went before. ``declared`` is the node's declaration, flat;
    ``grace`` (ms), where the incarnation was rebuilt with another one than declared, holds for all of it.
    ``files``, ``topic``, ``delta`` or ``wal`` is what a source reads. The open dead letters of the epochs ``retries``
    are read again. Records ``skipped`` stay out of this epoch and of all later ones of the incarnation.
    """

    pipeline: str
    node: str
    incarnation: int
    epoch: int
    since: int = 1
    previous_epoch: int = 0
    inputs: dict[str, InputSlice] = {}
    files: tuple[PlannedFile, ...] = ()
    topic: TopicSlice | None = None
    delta: VersionRange | None = None
    wal: WalRange | None = None
    retries: tuple[int, ...] = ()
    output_version: int | None = None
    ends: Offsets = {}
    stream_time: Offsets = {}
    semantics: str = "3.1"
    code_version: str = ""
    declared: dict[str, str] = {}
    grace: int | None = None
    skipped: tuple[Skipped, ...] = ()

    @classmethod
    def after(cls, previous: CommitNote | None, version: int | None, **fields: Any) -> EpochPlan:
        """The plan that goes on from a commit, which made ``version`` of the changelog; ``None``: the first.

        Parameters
        ----------
        fields
            Of which node and epoch it is, and what it reads.
        """
        if previous is None:
            return cls(incarnation=1, output_version=version, **fields)
        return cls(
            incarnation=previous.incarnation,
            since=previous.since,
            previous_epoch=previous.epoch,
            output_version=version,
            ends=previous.ends,
            stream_time=previous.stream_time,
            grace=previous.grace,
            skipped=previous.skipped,
            **fields,
        )

    @property
    def records(self) -> int:
        """How many records the epoch reads; of files, whose records nobody knows yet, one for each 32 bytes."""
        of_topic = self.topic.records if self.topic is not None else 0
        of_table = sum(found.rows for found in (self.delta, self.wal) if found is not None)
        of_files = sum(f.length for f in self.files) // 32
        return sum(part.records for part in self.inputs.values()) + of_files + of_topic + of_table

    @property
    def rows(self) -> int:
        """About how many rows its queries may read: of an operator all that its inputs and its own changelog hold."""
        if not self.inputs:
            return self.records
        known = sum(part.consumed for part in self.inputs.values()) + sum(end + 1 for end in self.ends.values())
        return self.records + known

    @property
    def replaces(self) -> bool:
        """Whether the epoch begins a new incarnation: its commit replaces the changelog."""
        return self.incarnation > 1 and self.epoch == self.since

    def anew(self, incarnation: int, grace: int | None) -> EpochPlan:
        """The same plan as the first of a new incarnation."""
        return self.model_copy(update={"incarnation": incarnation, "since": self.epoch, "grace": grace})


class Decision(_Value):
    """What a person decided about an epoch that its audit refused (``assets/refused/states.py``).

    It is of one ``attempt``: of the rows with this ``digest`` and of these broken ``invariants``. ``by`` is the name of
    a user, ``at`` the time (ISO 8601), ``loss`` what a drop loses.
    """

    how: Literal["release", "drop"]
    epoch: int
    attempt: int
    invariants: tuple[str, ...]
    digest: str
    by: str
    at: str
    loss: str = ""

    @property
    def drops(self) -> bool:
        """Whether the epoch is committed without its rows."""
        return self.how == "drop"

    @property
    def summary(self) -> str:
        """Who decided what, and when."""
        return f"{'dropped' if self.drops else 'released'} by {self.by} at {self.at}"

    def accepts(self, digest: str, broken: Collection[str]) -> bool:
        """Whether rows may be committed although they break these invariants."""
        return not self.drops and digest == self.digest and set(broken) <= set(self.invariants)


class CommitNote(_Value):
    """The note of a changelog's commit, in Delta's ``userMetadata``: the position that it makes visible.

    ``times`` is the highest timestamp of each partition so far (ms), ``stream_time`` that of what was consumed, and
    ``incarnations`` the incarnation of each input that ``consumed`` counts in. ``since`` as in `EpochPlan`. ``decided``
    is there where the epoch was refused, and a person decided about it.
    """

    incarnation: int
    epoch: int
    ends: Offsets
    times: Offsets = {}
    stream_time: Offsets = {}
    consumed: dict[str, Offsets] = {}
    incarnations: dict[str, int] = {}
    since: int = 1
    declared: dict[str, str] = {}
    grace: int | None = None
    skipped: tuple[Skipped, ...] = ()
    decided: Decision | None = None


def within(ends: Mapping[int, int], others: Mapping[int, int]) -> bool:
    """Whether ``ends`` is at or behind ``others`` in every partition."""
    return all(end <= others.get(partition, -1) for partition, end in ends.items())
