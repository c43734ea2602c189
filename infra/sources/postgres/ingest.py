"""A table of PostgreSQL as a step of the commit protocol: a snapshot first, then ranges of the log's commits.

| the database has | the epoch |
|---|---|
| a table that was never read | reads a snapshot, at a position of the log |
| changes of any table of the pipeline | reads those of its own table up to the shared cut, maybe none |
| no changes | is not made |
| lost the slot, another server, another table of the name | is refused (``infra/postgres/state.py``) |

The position is in the plan of the last committed epoch, not in the slot, which is advanced when a later epoch is
planned. That of a snapshot is in a line of its own, written before the commit: the last one of an epoch counts
(``tests/infra/sources/postgres/test_kill.py``). A row that is not a record of the source is a dead letter, and too many
of them refuse the epoch. Held by ``tests/infra/sources/postgres/test_reading.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.changelog_files import records
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.engine.fit import fit_compilation
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.inputs import pin_table, read_folded
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.postgres.catalog import Alterations, catalog
from rivermeet.infra.postgres.connection import Database
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
    LOST,
    TableState,
    attach_source,
    log_end,
    server_state,
    table_state,
)
from rivermeet.infra.postgres.wal_range import KnownTable, WalRange, lsn_text
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.settings import SettingsError
from rivermeet.infra.source_range import SourceRange
from rivermeet.infra.sources.landing_folder import LandingFolder
from rivermeet.infra.sources.postgres.changes import Changes
from rivermeet.infra.sources.postgres.landing import Line, change_tables, landing_schema, snapshot_tables
from rivermeet.infra.sources.postgres.problems import COLUMNS, WalLag, find_problems, lag_of
from rivermeet.infra.sources.postgres.repeated_key import find_repeated_key, key_warning
from rivermeet.infra.sources.postgres.repeated_key import is_unique as is_unique_key
from rivermeet.infra.sources.postgres.rows import decode_landed, fill_unchanged, with_emptied
from rivermeet.infra.sources.postgres.slot import PipelineSlot, SlotLine, release
from rivermeet.infra.sources.row_to_record import SourceFrames
from rivermeet.infra.sources.source_step import SourceStep
from rivermeet.infra.sources.standing import Finding, ReportTable, Standing, Unread
from rivermeet.pipelines import Node, Postgres
from rivermeet.pipelines.expressions import quote
from rivermeet.records.changelog import as_of

if TYPE_CHECKING:
    import psycopg


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
        """The node's last position; None before the first, and LogPositionLostError if the log does not have it."""
        return self._position(self.node, note)

    def _position(self, node: Node, note: CommitNote | None) -> WalRange | None:
        """That of a source of the pipeline: the end of the last committed range, or the last snapshot before it."""
        if note is None:
            return None
        plan = self.log.plan_of(node.name, note.epoch)
        found = plan.reads if plan is not None and isinstance(plan.reads, WalRange) else None
        if found is not None and found.end is None:
            taken = max(self._snapshots(node.name, note.epoch), key=lambda each: each["attempt"], default=None)
            found = None if taken is None else WalRange.model_validate(taken["wal"])
        if found is None:
            raise LogPositionLostError(
                f"source '{node.pipeline.name}.{node.name}': the epoch log does not say up to where epoch {note.epoch} "
                f"read the database: put the log back ({self.log.path}), or run "
                f"`rivermeet resnapshot {node.pipeline.name} {node.name}`",
                epoch=note.epoch,
            )
        return found

    def _snapshots(self, node: str, epoch: int) -> list[dict[str, Any]]:
        return [json.loads(body) for at, body in self.log.bodies(node, "snapshot", epoch - 1) if at == epoch]

    def positions(self) -> Mapping[str, int]:
        """The positions of those sources of the pipeline in this database that were read."""
        found: dict[str, int] = {}
        for node in self._sources():
            if (read := self._find_last_read(node)) is not None:
                found[node.name] = read.position
        return found

    def _find_last_read(self, node: Node) -> WalRange | None:
        note = last_note(replace(self.paths, node=node.name).changelog)
        return self._position(node, note[1] if note else None)

    def problems(self, connection: psycopg.Connection[Any], before: WalRange | None) -> Iterator[PostgresRefusedError]:
        """All problems that prevent reading the table, each with its remedy."""
        for problem in find_problems(connection, self.slot, self.reads, before, self._tables()):
            yield attach_source(problem, self.name, before is not None and isinstance(problem, LOST))

    def next_range(self, previous: CommitNote | None) -> WalRange | None:
        """The changes up to the cut of the pipeline; the first epoch of an incarnation is a snapshot."""
        before = self.position(previous)
        with self.database.open_connection() as connection:
            # Read before the comparison: later changes are found the next time.
            known = before and catalog(connection, self.reads, before.publication, before.relation).known
            self._refuse(connection, before)
            if before is None:
                table = table_state(connection, self.reads)
                return WalRange(table=self.reads.table, rows=table.rows if table is not None else 0)
            server = server_state(connection)
            cut = self.slot.next_cut(connection, self.node.name, self.positions(), server)
            if cut is None and not self.has_new_columns(previous):
                return None
            end, at = (cut.cut, cut.at) if cut is not None else (before.position, before.at)
            # A change takes about a hundred bytes of the log.
            rows = (end - before.position) // 200
            read = {"start": before.position, "end": end, "at": at, "rows": rows, "known": known}
            return before.model_copy(update=read)

    def range_again(self, previous: CommitNote | None) -> WalRange | None:
        """Refused: newer changes of the letters' rows have been read."""
        raise NotRepeatableError(
            f"source '{self.name}': a dead letter of a table may be older than the current row; correct the "
            f"declaration, and read the whole table again: `rivermeet resnapshot {self.name.replace('.', ' ')}`",
            source=self.name,
        )

    def lag(self) -> WalLag | None:
        """The lag, from the server; None if it was never read."""
        read = self.position(self.note())
        return None if read is None else lag_of(self.database, self.slot, read)

    def find_standing(self) -> Standing:
        """The unread bytes of the log, and the log that the slot retains."""
        lag = self.lag()
        return Standing() if lag is None else Standing(lag.behind, (f"table '{self.reads.table}', {lag.description}",))

    def find_changed(self) -> Unread | None:
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
            about = "not read yet" if read is None else lag_of(self.database, self.slot, read).description
            if table is not None and table.heirs:
                about += f"; rows of what inherits from it are no part of it: {', '.join(table.heirs)}"
            about += f"; {warning}" if warning is not None else ""
            yield Finding(f"{self.node.name}: table '{self.reads.table}' can be read; {about}", True)
        except (EpochRefusedError, SettingsError) as refusal:
            yield Finding(f"{self.node.name}: {refusal}", False)

    def describe_loss(self) -> str | None:
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
            if line.slot in {read.slot for node in self._sources() if (read := self._find_last_read(node)) is not None}:
                return
            with self.database.open_connection() as connection:
                self.slot.give_up(connection, line)

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Read the planned range, or a snapshot; rows that are not records are dead letters."""
        planned = plan.reads
        assert isinstance(planned, WalRange), "a plan of a table has a range"
        landing = LandingFolder.create(self.landing, plan.epoch, landing_schema(len(self.reads.columns)))
        if planned.end is None:
            taken = self._land_snapshot(landing, planned)
            attempt = len(self._snapshots(plan.node, plan.epoch)) + 1
            body = json.dumps({"attempt": attempt, "wal": taken.model_dump()})
            self.log.write(plan.node, plan.incarnation, plan.epoch, "snapshot", body, attempt)
            crash.crash_at("snapshot-noted", self.node.name)
            changes = None
        else:
            changes = self._land_changes(landing, planned, plan)
        crash.crash_at("landed", self.node.name)
        fit_compilation(spark, landing.rows)
        is_unique = not landing.rows
        if not is_unique:
            with self.database.open_connection() as connection:
                table = table_state(connection, self.reads)
                is_unique = table is not None and is_unique_key(connection, self.reads, table.oid)
        own = None
        if changes is not None and (changes.unchanged or changes.emptied or not is_unique):
            own = self._own_rows(spark, plan)
        if not is_unique:
            self._refuse_repeated_key(landing.read(spark), own if self._has_own_key() else None)
        parsed = shared.keep(self._parse(landing.read(spark), changes, own))
        frames = SourceFrames(parsed)
        emptied = changes.emptied if changes is not None else ()
        return self.finish(plan, frames, rows=with_emptied(frames.records, own, emptied, self.reads.table))

    def within(self, plan: EpochPlan) -> str:
        """The table."""
        return self.source.reads.label

    def _land_snapshot(self, landing: LandingFolder, planned: WalRange) -> WalRange:
        with self.database.open_connection() as connection:
            self._refuse(connection, None)
            table = table_state(connection, self.reads)
            assert table is not None
            number, at_least = self._publish(connection)
            server = server_state(connection)
            with ExitStack() as stack:
                # Once this transaction has it, the snapshot lasts, even if the exporting connection ends.
                with self.slot.hold():
                    line, snapshot = self.slot.snapshot(connection, at_least=at_least)
                    seen = stack.enter_context(snapshot.open_connection())
                    if not {node.name for node in self._sources()} - self.positions().keys() - {self.node.name}:
                        release(self.database, line.slot)
                known = catalog(seen, self.reads, line.publication, table.oid).known
                copied = self._copy(seen, table)
                landing.write(snapshot_tables(copied, landing.schema, snapshot.lsn, server.now_ms))
                # Reading locks the table against alterations until the end: an earlier answer may be outdated.
                self._refuse(connection, None)
                self._refuse_altered(connection, table, known, line)
        return planned.model_copy(
            update={
                "system": server.system,
                "timeline": server.timeline,
                "slot": line.slot,
                "publication": line.publication,
                "relation": table.oid,
                "published": number,
                "known": known,
                "start": snapshot.lsn,
                "end": snapshot.lsn,
                "at": server.now_ms,
            }
        )

    def _publish(self, connection: psycopg.Connection[Any]) -> tuple[int | None, int]:
        """Publish the table completely; its number, None if the publication is for all tables, and since where."""
        name, reads = self.slot.publication, self.reads
        try:
            found, altered = publish(connection, name, self._tables(), reads)
        except NotPublishedError as problem:
            raise attach_source(problem, self.name, False) from None
        for problem in found.problems(reads, None):
            raise attach_source(problem, self.name, False)
        _, state = found.tables[reads.table]
        assert state is not None
        return state.published, log_end(connection) if altered else 0

    def _refuse_altered(
        self, connection: psycopg.Connection[Any], state: TableState, known: KnownTable, line: SlotLine
    ) -> None:
        """Refuse the snapshot of a table that was rewritten meanwhile: it shows other rows, or none."""
        # Reading has locked it by then, so it cannot be altered afterwards.
        now = catalog(connection, self.reads, line.publication, state.oid)
        for problem in Alterations(connection, self.reads, line.publication, known, now).problems():
            release(self.database, line.slot)
            says = f"source '{self.name}': {problem}: it was while the table was read; run again"
            raise type(problem)(says, **{**problem.fields, "source": self.name})

    def _copy(self, seen: psycopg.Connection[Any], state: TableState) -> Iterator[Line]:
        from psycopg import sql

        columns = sql.SQL(", ").join([sql.Identifier(name) for name in self.reads.columns])
        # Tables that inherit from it have separate log entries; changes of its partitions come as its own.
        only = sql.SQL("" if state.kind == "p" else "ONLY ")
        # In the log's format: a cast to text would strip the blanks of a CHAR.
        command = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT (FORMAT csv)").format(
            columns, only, sql.Identifier(*self.reads.place)
        )
        with seen.cursor() as cursor, cursor.copy(command) as copied:
            yield from copied

    def _land_changes(self, landing: LandingFolder, planned: WalRange, plan: EpochPlan) -> Changes:
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
            landing.write(change_tables(changes.rows(self.slot.peek(planned)), landing.schema))
        except TableAlteredError as problem:
            raise attach_source(problem, self.name, True) from None
        return changes

    def _parse(self, landed: DataFrame, changes: Changes | None, own: DataFrame | None) -> DataFrame:
        unchanged = changes.unchanged if changes is not None else ()
        rows = decode_landed(landed, self.reads, lineage=bool(unchanged))
        if unchanged:
            rows = fill_unchanged(rows, self.source, sorted(unchanged), own if self._has_own_key() else None)
        return self.records_of(rows)

    def _own_rows(self, spark: SparkSession, plan: EpochPlan) -> DataFrame | None:
        """Live rows of the node's own table before the epoch: the fold of its changelog; None before the first.

        The folded table is a cache, so every version that is not ahead of the epoch gives the same rows: the newest
        one is used, with the changelog's records since.
        """
        if not plan.ends:
            return None
        paths = self.paths
        version, ends = pin_table(paths.table, plan.ends, plan.incarnation)
        folded = None if version is None else read_folded(spark, paths, version)
        return as_of(folded, records(spark, paths.changelog, ends, plan.ends))

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

    def _refuse(self, connection: psycopg.Connection[Any], before: WalRange | None) -> None:
        for problem in self.problems(connection, before):
            raise problem

    def _tables(self) -> list[Postgres]:
        return [node.source.postgres for node in self._sources() if node.source is not None]

    def _sources(self) -> Iterator[Node]:
        for node in self.node.pipeline.nodes:
            reads = node.source.reads if node.source is not None else None
            if isinstance(reads, Postgres) and reads.database == self.reads.database:
                yield node
