"""A table of PostgreSQL as a step of the commit protocol: a snapshot first, then ranges of the log's commits.

| the database has | the epoch |
|---|---|
| a table that was never read | reads a snapshot, at a position of the log |
| changes of any table of the pipeline | reads those of its own table up to the shared cut, maybe none |
| no changes | is not made |
| lost the slot, another server, another table of the name | is refused (``infra/postgres/state.py``) |

The position is in the plan of the last committed epoch, not in the slot, which is advanced when a later epoch is
planned. A row that is not a record of the source is a dead letter, and too many of them refuse the epoch. Held by
``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.engine.interpretation import fit_compilation
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.postgres.catalog import Alterations, catalog
from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.lsn import lsn_text
from rivermeet.infra.postgres.publication import publish
from rivermeet.infra.postgres.refusals import (
    KeyRepeatedError,
    LogPositionLostError,
    NotPublishedError,
    NotRepeatableError,
    PostgresRefusedError,
    TableAlteredError,
)
from rivermeet.infra.postgres.state import (
    TableState,
    attach_source,
    identities,
    log_end,
    needs_snapshot,
    server_state,
    table_state,
)
from rivermeet.infra.postgres.unique import is_unique, key_warning
from rivermeet.infra.postgres.wal_range import KnownTable, WalRange
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.settings import SettingsError
from rivermeet.infra.source_range import SourceRange
from rivermeet.infra.sources.postgres.changes import Changes
from rivermeet.infra.sources.postgres.copied import Line
from rivermeet.infra.sources.postgres.emptied import with_emptied
from rivermeet.infra.sources.postgres.lag import COLUMNS, WalLag, lag_of
from rivermeet.infra.sources.postgres.landing import Landing
from rivermeet.infra.sources.postgres.own_rows import own_rows
from rivermeet.infra.sources.postgres.peek import peek_messages
from rivermeet.infra.sources.postgres.position import note_snapshot, position
from rivermeet.infra.sources.postgres.problems import find_problems
from rivermeet.infra.sources.postgres.repeated_key import find_repeated_key
from rivermeet.infra.sources.postgres.rows import landed_rows
from rivermeet.infra.sources.postgres.slot import PipelineSlot, SlotLine
from rivermeet.infra.sources.postgres.snapshot import release
from rivermeet.infra.sources.postgres.unchanged import fill_unchanged
from rivermeet.infra.sources.row_to_record import to_records
from rivermeet.infra.sources.source_frames import SourceFrames, partition_of
from rivermeet.infra.sources.source_step import SourceStep
from rivermeet.infra.sources.standing import Finding, Fresh, ReportTable, Standing
from rivermeet.infra.sources.tables import Unread, is_fresh
from rivermeet.pipelines import Node, Postgres
from rivermeet.pipelines.expressions import quote

if TYPE_CHECKING:
    import psycopg


class _Published(NamedTuple):
    """A table's number in the publication, None if that is for all tables, and the position since which it has it."""

    number: int | None
    at_least: int


@dataclass(frozen=True)
class PostgresStep(SourceStep[WalRange]):
    """One source node that reads a table of PostgreSQL.

    Attributes
    ----------
    slot
        The pipeline's, in the table's database.
    landing
        Folder of the node's landed rows.
    """

    slot: PipelineSlot
    landing: Path
    unit: ClassVar[str] = "commit"
    ranges: ClassVar[type[SourceRange]] = WalRange

    @property
    def reads(self) -> Postgres:
        """The declared table."""
        return self.source.postgres

    @property
    def database(self) -> Database:
        """The database of the table."""
        return self.slot.database

    def position(self, note: CommitNote | None) -> WalRange | None:
        """The node's last position; None before the first."""
        return position(self.log, self.node, note)

    def positions(self) -> Mapping[str, int]:
        """The positions of those sources of the pipeline in this database that were read."""
        found: dict[str, int] = {}
        for node in self._sources():
            if (read := self._read(node)) is not None:
                found[node.name] = read.position
        return found

    def _read(self, node: Node) -> WalRange | None:
        """The last position of a source of the pipeline; None before the first."""
        note = last_note(self._paths(node).changelog)
        return position(self.log, node, note[1] if note else None)

    def problems(self, connection: psycopg.Connection[Any], before: WalRange | None) -> Iterator[PostgresRefusedError]:
        """All problems that prevent reading the table, each with its remedy."""
        for problem in find_problems(connection, self.slot, self.reads, before, self._tables()):
            yield attach_source(problem, self.name, needs_snapshot(problem, before))

    def next_range(self, previous: CommitNote | None) -> WalRange | None:
        """The changes up to the cut of the pipeline; the first epoch of an incarnation is a snapshot."""
        before = self.position(previous)
        with self.database.open_connection() as connection:
            # Read before the comparison: later changes are found the next time.
            known = self._known(connection, before)
            self._refuse(connection, before)
            if before is None:
                table = table_state(connection, self.reads)
                return WalRange(table=self.reads.table, rows=table.rows if table is not None else 0)
            server = server_state(connection)
            cut = self.slot.next_cut(connection, self.node.name, self.positions(), server)
            if cut is None and not self.has_new_columns(previous):
                return None
            return self._range(before, cut).model_copy(update={"known": known})

    def range_again(self, previous: CommitNote | None) -> WalRange | None:
        """Refused: newer changes of the letters' rows have been read."""
        raise NotRepeatableError(
            f"source '{self.name}': a dead letter of a table may be older than the current row; correct the "
            f"declaration, and read the whole table again: `rivermeet resnapshot {self.name.replace('.', ' ')}`"
        )

    def lag(self) -> WalLag | None:
        """The lag, from the server; None if it was never read."""
        read = self.position(self.note())
        return None if read is None else lag_of(self.database, self.slot, read)

    def standing(self) -> Standing:
        """The unread bytes of the log, and the log that the slot retains."""
        lag = self.lag()
        return Standing() if lag is None else Standing(lag.behind, (f"table '{self.reads.table}', {lag.shown}",))

    def fresh(self, freshness_ms: int, now_ms: float) -> Fresh:
        """Whether no change of the table has been there for longer, by the clock of its commit, and was not read."""
        return is_fresh(self.changed(), freshness_ms, now_ms)

    def changed(self) -> Unread | None:
        """The unread part of the log; None if nothing was read yet."""
        read = self.position(self.note())
        with self.database.open_connection() as connection:
            self._refuse(connection, read)
        lag = self.lag()
        if lag is None:
            return None
        since = None if lag.since_ms is None else round(time.time() * 1000) - lag.since_ms
        return Unread(lag.behind, "bytes", since)

    def report(self) -> ReportTable | None:
        """The position of the newest plan."""
        try:
            read = self.position(self.note())
        except LogPositionLostError:
            return None
        if read is None:
            return None
        row = (lsn_text(read.position), read.position - (read.start or 0), read.at, read.at)
        return ReportTable("log", f"Table {read.table}, as its newest epoch has read it", COLUMNS, (row,))

    def findings(self) -> Iterator[Finding]:
        """Everything for which its run would be refused, or its position."""
        try:
            read = self.position(self.note())
            with self.database.open_connection() as connection:
                problems = list(self.problems(connection, read))
                table = table_state(connection, self.reads)
                warning = key_warning(connection, self.reads)
            for problem in problems:
                yield Finding(f"{self.node.name}: {problem}", False, self.database.name, problem.cure)
            if problems:
                return
            about = "not read yet" if read is None else lag_of(self.database, self.slot, read).shown
            if table is not None and table.heirs:
                about += f"; rows of what inherits from it are no part of it: {', '.join(table.heirs)}"
            about += f"; {warning}" if warning is not None else ""
            yield Finding(f"{self.node.name}: table '{self.reads.table}' can be read; {about}", True)
        except (EpochRefusedError, SettingsError) as refusal:
            yield Finding(f"{self.node.name}: {refusal}", False)

    def lost(self) -> str | None:
        """Describe what a rebuild would lose: for a stream, its earlier changes. A table is read as a snapshot."""
        if self.node.is_table or self.note() is None:
            return None
        return "its changes so far are no longer in the log: it would begin with a snapshot of the table"

    def give_up(self, is_running: Callable[[Node], bool]) -> None:
        """Drop a slot that no source has read from yet, because it would retain the log until the next run.

        Not if another source is running, which may use it; if that one fails too, it drops the slot itself.
        """
        others = [node for node in self._sources() if node.name != self.node.name]
        with suppress(EpochRefusedError, SettingsError), self.slot.hold():
            line = self.slot.line()
            if line is None or line.state != "standing" or any(map(is_running, others)):
                return
            if line.slot in {read.slot for node in self._sources() if (read := self._read(node)) is not None}:
                return
            with self.database.open_connection() as connection:
                self.slot.give_up(connection, line)

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Read the planned range, or a snapshot; rows that are not records are dead letters."""
        planned = plan.reads
        assert isinstance(planned, WalRange), "a plan of a table has a range"
        landing = Landing.create(self.landing, plan.epoch, len(self.reads.columns))
        if planned.end is None:
            note_snapshot(self.log, plan, self._land_snapshot(landing, planned))
            crash.reached("snapshot-noted", self.node.name)
            changes = None
        else:
            changes = self._land_changes(landing, planned, plan)
        crash.reached("landed", self.node.name)
        fit_compilation(spark, landing.rows)
        is_unique = not landing.rows or self._is_unique()
        own = None
        if changes is not None and (changes.unchanged or changes.emptied or not is_unique):
            own = own_rows(spark, self._paths(self.node), plan)
        if not is_unique:
            self._refuse_repeated_key(landing.read(spark), own if self._has_own_key() else None)
        parsed = shared.keep(self._parsed(landing.read(spark), changes, own))
        frames = SourceFrames(parsed)
        emptied = changes.emptied if changes is not None else ()
        return self.finish(plan, frames, rows=with_emptied(frames.records, own, emptied, self.reads.table))

    def within(self, plan: EpochPlan) -> str:
        """The table."""
        return f"table '{self.reads.table}'"

    def _known(self, connection: psycopg.Connection[Any], before: WalRange | None) -> KnownTable | None:
        """The catalog's state of a table that was read before."""
        if before is None:
            return None
        return catalog(connection, self.reads, before.publication, before.relation).known

    def _land_snapshot(self, landing: Landing, planned: WalRange) -> WalRange:
        """Land a snapshot of the table; return what was read, with its position."""
        with self.database.open_connection() as connection:
            self._refuse(connection, None)
            table = table_state(connection, self.reads)
            assert table is not None
            published = self._published(connection)
            server = server_state(connection)
            with ExitStack() as stack:
                # Once this transaction has it, the snapshot lasts, even if the exporting connection ends.
                with self.slot.hold():
                    line, snapshot = self.slot.snapshot(connection, at_least=published.at_least)
                    seen = stack.enter_context(snapshot.open_connection())
                    if not self._awaited() - {self.node.name}:
                        release(line.slot)
                known = catalog(seen, self.reads, line.publication, table.oid).known
                landing.write_snapshot(self._copied(seen, table), snapshot.lsn, server.now_ms)
                # Reading locks the table against alterations until the end: an earlier answer may be outdated.
                self._refuse(connection, None)
                self._refuse_altered(connection, table, known, line)
        return planned.model_copy(
            update={
                **identities(server),
                "slot": line.slot,
                "publication": line.publication,
                "relation": table.oid,
                "published": published.number,
                "known": known,
                "start": snapshot.lsn,
                "end": snapshot.lsn,
                "at": server.now_ms,
            }
        )

    def _published(self, connection: psycopg.Connection[Any]) -> _Published:
        """Publish the table; refused if it is not published completely."""
        name, reads = self.slot.publication, self.reads
        try:
            found, altered = publish(connection, name, self._tables(), reads)
        except NotPublishedError as problem:
            raise attach_source(problem, self.name, False) from None
        for problem in found.problems(reads, None):
            raise attach_source(problem, self.name, False)
        _, state = found.tables[reads.table]
        assert state is not None
        return _Published(state.published, log_end(connection) if altered else 0)

    def _refuse_altered(
        self, connection: psycopg.Connection[Any], table: TableState, known: KnownTable, line: SlotLine
    ) -> None:
        """Refuse the snapshot of a table that was rewritten meanwhile: it shows other rows, or none."""
        # Reading has locked it by then, so it cannot be altered afterwards.
        now = catalog(connection, self.reads, line.publication, table.oid)
        for problem in Alterations(connection, self.reads, line.publication, known, now).problems():
            release(line.slot)
            raise type(problem)(f"source '{self.name}': {problem}: it was while the table was read; run again")

    def _copied(self, seen: psycopg.Connection[Any], table: TableState) -> Iterator[Line]:
        from psycopg import sql

        columns = sql.SQL(", ").join([sql.Identifier(name) for name in self.reads.columns])
        # Tables that inherit from it have separate log entries; changes of its partitions come as its own.
        only = sql.SQL("" if table.kind == "p" else "ONLY ")
        # In the log's format: a cast to text would strip the blanks of a CHAR.
        command = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT (FORMAT csv)").format(
            columns, only, sql.Identifier(*self.reads.place)
        )
        with seen.cursor() as cursor, cursor.copy(command) as copied:
            yield from copied

    def _land_changes(self, landing: Landing, planned: WalRange, plan: EpochPlan) -> Changes:
        before = self.position(self.note())
        kept = before.known.columns if before is not None and before.known is not None else ()
        changes = Changes(
            planned, list(self.reads.columns), self.reads.key, [c for c in self.reads.columns if c in kept]
        )
        if planned.start == planned.end:
            return changes
        with self.database.open_connection() as connection:
            self._refuse(connection, planned)
        try:
            landing.write_changes(changes.rows(peek_messages(self.database, self.slot, planned)))
        except TableAlteredError as problem:
            raise attach_source(problem, self.name, True) from None
        return changes

    def _parsed(self, landed: DataFrame, changes: Changes | None, own: DataFrame | None) -> DataFrame:
        unchanged = changes.unchanged if changes is not None else ()
        rows = landed_rows(landed, self.reads, lineage=bool(unchanged))
        if unchanged:
            rows = fill_unchanged(rows, self.source, sorted(unchanged), own if self._has_own_key() else None)
        parsed = to_records(rows, self.source)
        return parsed.withColumn("partition", partition_of(F.col("key"), self.node.partitions))

    def _is_unique(self) -> bool:
        """Whether the database guarantees that keys are unique."""
        with self.database.open_connection() as connection:
            table = table_state(connection, self.reads)
            return table is not None and is_unique(connection, self.reads, table.oid)

    def _refuse_repeated_key(self, landed: DataFrame, own: DataFrame | None) -> None:
        found = find_repeated_key(landed, self.reads, own)
        if found is not None:
            problem = KeyRepeatedError(
                f"key= ({', '.join(self.reads.key)}) does not keep the rows of '{self.reads.table}' apart: two have "
                f"{found} at a time, and one would be lost; give key= columns of a unique index, and types that keep "
                "them apart, or make them unique",
                table=self.reads.table,
            )
            raise attach_source(problem, self.name, own is not None)

    def _has_own_key(self) -> bool:
        """Whether the node's key identifies rows in the database; a stream may have another key."""
        return {quote(name) for name in self.reads.key} == {e.sql for e in self.source.key.values()}

    def _range(self, before: WalRange, cut: SlotLine | None) -> WalRange:
        end, at = (cut.cut, cut.at) if cut is not None else (before.position, before.at)
        # A change takes about a hundred bytes of the log.
        rows = (end - before.position) // 200
        return before.model_copy(update={"start": before.position, "end": end, "at": at, "rows": rows})

    def _refuse(self, connection: psycopg.Connection[Any], before: WalRange | None) -> None:
        for problem in self.problems(connection, before):
            raise problem

    def _tables(self) -> list[Postgres]:
        """The tables that the pipeline reads in this database."""
        return [node.source.postgres for node in self._sources() if node.source is not None]

    def _sources(self) -> Iterator[Node]:
        for node in self.node.pipeline.nodes:
            reads = node.source.reads if node.source is not None else None
            if isinstance(reads, Postgres) and reads.database == self.reads.database:
                yield node

    def _awaited(self) -> set[str]:
        """Sources of the pipeline in this database that were never read."""
        return {node.name for node in self._sources()} - self.positions().keys()

    def _paths(self, node: Node) -> NodeTables:
        own = f"/{self.node.pipeline.name}/{self.node.name}/changelog"
        return NodeTables(self.changelog.removesuffix(own), node.pipeline.name, node.name)
