"""A source as a step of the commit protocol: the base of the steps of all kinds of source.

A kind of source determines the next range (`SourceStep.next_range`), and reads it (`SourceStep.compute`). The locations
of the node's tables, the consumed records, and the end of each epoch are the same for all:

| rows that were read | the epoch |
|---|---|
| records and some bad rows | commits both: the bad rows as dead letters, each with its reason |
| more bad rows than ``max_bad_share`` allows | is refused; the bad rows are stored in the table ``rejected`` |
| retried dead letters | commits the result, however many are still bad: they were accepted before |

The message has the first bad rows: ``orders.csv, line 3: "x0,no,0" (column 'n': 'no' is not INT)``.

Dead letters are parsed again after the declaration or the file was corrected. Their table keeps every letter,
identified by (epoch, file, line, position). A letter is open until a committed epoch has retried it:

    epoch 1   1.csv, position 1   "b,x,20"   column 'n': 'x' is not INT
    epoch 1   2.csv, position 0   NULL       the file has no column 'n'       (0: the file itself)
    epoch 4   retries epoch 1: "b,x,20" is a record now; 2.csv is read again, and its second row is dead
    epoch 4   2.csv, position 1   "d,y,40"   column 'n': 'y' is not INT       the only open one

- The letters of rows belong to their epoch: they are closed when a committed plan retries it. A row that is still dead
  is written again with the retrying epoch and its current reason, so each counts once.
- The letter of a file is also closed when a later plan has the file: it was replaced, and is read like a new one.
- A row that has become a record comes after all existing records of the changelog, like a late delivery: a join may
  find its window closed.

Held by ``tests/infra/sources/test_bad_input.py`` and ``tests/infra/sources/test_dead_letters.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Generic, TypeVar, cast

import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import RETENTION, append, last_note
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.declaration import new_columns
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import StepFrames
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.small_frames import numbers_of
from rivermeet.infra.source_range import SourceRange
from rivermeet.infra.sources.row_to_record import SourceFrames, partition_of, to_records
from rivermeet.infra.sources.standing import Finding, Fresh, ReportTable, Standing, Unread, is_fresh
from rivermeet.pipelines import Node, Source, limits
from rivermeet.pipelines.plural import pluralize

_Range = TypeVar("_Range", bound=SourceRange)


class TooManyBadRowsError(EpochRefusedError):
    """An epoch has more bad rows than the source allows; its input stays unread."""

    remedy = "Correct the declaration or the files, and run again; the table `rejected` has the rows."

    replan = True


@dataclass(frozen=True)
class SourceHistory:
    """The committed plans of a source's incarnation, oldest first, and the location of its dead letters."""

    plans: Sequence[EpochPlan]
    dead_letters: str

    @cached_property
    def open(self) -> OpenLetters:
        """Dead letters that no epoch has retried."""
        return open_letters(self.dead_letters, self.plans)


@dataclass(frozen=True)
class SourceStep(Generic[_Range]):
    """A source's part in an epoch.

    Attributes
    ----------
    paths
        Locations of the node's tables.
    retry
        Whether open dead letters are planned, in place of new records.
    accept_loss
        Whether records that can no longer be read are skipped, for a kind that can lose records.
    """

    node: Node
    paths: NodeTables
    log: EpochLog
    retry: bool = field(default=False, kw_only=True)
    accept_loss: bool = field(default=False, kw_only=True)
    read_word: ClassVar[str] = "source"
    """What is read, in one word."""
    unit: ClassVar[str] = "row"
    """The unit of a bad row's number."""
    cure: ClassVar[str] = "correct the declaration or raise the share"
    position_lost: ClassVar[type[EpochRefusedError]] = EpochRefusedError
    ranges: ClassVar[type[SourceRange]] = SourceRange

    def next_range(self, previous: CommitNote | None) -> _Range | None:
        """The range after a commit; None if nothing is new. The first epoch may read nothing."""
        raise NotImplementedError

    def range_again(self, previous: CommitNote | None) -> _Range | None:
        """The range beside retried dead letters; None if they cannot be retried now."""
        raise NotImplementedError

    def compute(self, spark: SparkSession, plan: EpochPlan, shared: SharedFrames) -> StepFrames:
        """Read the planned range; rows that are not records are dead letters."""
        raise NotImplementedError

    def describe_loss(self) -> str | None:
        """Describe the records that a rebuild would lose because they can no longer be read, or None."""
        return None

    def find_standing(self) -> Standing:
        """The lag of the source, with a request to its system."""
        return Standing()

    def fresh(self, freshness_ms: int, now_ms: float) -> Fresh:
        """Whether no record has been unread for longer than that, by the clock ``now_ms``."""
        return is_fresh(self.find_changed(), freshness_ms, now_ms)

    def find_changed(self) -> Unread | None:
        """The unread part of a table; None if it was never read."""
        raise NotImplementedError

    def describe_unread(self) -> str:
        """Describe unread input, if it is known without a request to a server."""
        return ""

    def report(self) -> ReportTable | None:
        """The range of the newest plan, for the quality report, from the epoch log alone."""
        return None

    def findings(self) -> Iterator[Finding]:
        """Problems that prevent reading, each with its remedy, or the position."""
        yield from ()

    def plan(self, previous: CommitNote | None, version: int | None, epoch: int) -> EpochPlan | None:
        """Plan new records, or the open dead letters; None if there are none."""
        retries = self.so_far(previous).open.epochs if self.retry else ()
        if self.retry and not retries:
            return None
        found = self.range_again(previous) if self.retry else self.next_range(previous)
        if found is None:
            return None
        return EpochPlan.after(
            previous,
            version,
            pipeline=self.node.pipeline.name,
            node=self.node.name,
            epoch=epoch,
            reads=found,
            retries=retries,
        )

    def unreadable(self, planned: _Range) -> EpochRefusedError | None:
        """The refusal of a range that can no longer be read; None if it can."""
        return None

    def refuse_unreadable(self, planned: _Range) -> None:
        """Raise what `unreadable` returns."""
        why = self.unreadable(planned)
        if why is not None:
            raise why

    def explain_skip(self, plan: EpochPlan) -> str | None:
        """Why a plan is skipped: its range is gone, and that was accepted. Otherwise reading it is refused."""
        if not self.accept_loss or not isinstance(plan.reads, self.ranges):
            return None
        why = self.unreadable(cast(_Range, plan.reads))
        return None if why is None else str(why)

    def has_new_columns(self, previous: CommitNote | None) -> bool:
        """Whether an epoch is due although nothing is new, because readers of the source need an added column."""
        return previous is None or bool(new_columns(self.node, previous))

    def finish(
        self,
        plan: EpochPlan,
        parsed: SourceFrames,
        *,
        dead: int | None = None,
        not_rows: int = 0,
        rows: DataFrame | None = None,
        counted: Mapping[str, int] | None = None,
    ) -> StepFrames:
        """End an epoch: records, dead letters, and the refusal where too many rows are bad.

        Parameters
        ----------
        parsed
            Cached, so that it is computed once.
        dead, not_rows
            How many rows are dead (None: they are counted here), and how many of them, such as whole files, do not
            count as bad rows.
        rows
            The records, if they are not those of ``parsed``.
        counted
            Extra counters to report, by name.
        """
        if dead is None:
            (dead,) = numbers_of(parsed.parsed, F.count_if(F.isnotnull("reason")))
        letters = parsed.dead

        def accept(good: int, sides: Mapping[str, int]) -> None:
            bad = sides["dead_letter"] - not_rows
            # Retried letters are known.
            if bad > self.source.max_bad_share * (bad + good) and not plan.retries:
                self._refuse_too_many(plan, letters, sides["dead_letter"], bad, bad + good)

        return StepFrames(
            parsed.records if rows is None else rows,
            {"dead_letter": letters},
            accept=accept,
            # Most deliveries have no bad row: this saves two actions.
            without_rows=frozenset(() if dead else ("dead_letter",)),
            counted=counted or {},
        )

    def _refuse_too_many(self, plan: EpochPlan, letters: DataFrame, count: int, bad: int, rows: int) -> None:
        """Keep all letters of the epoch in the table ``rejected``, and show the first ones."""
        table, app_id = self.paths.rejected, self.paths.app_id("rejected", plan.incarnation)
        kept = letters.select("*", F.lit(plan.epoch).cast("bigint").alias("epoch"))
        append(kept, table, app_id, plan.epoch, properties=RETENTION, replace=True)
        first = letters.orderBy("file", "position").limit(limits.SHOWN_ROWS).collect()
        shown = "; ".join(_show_row(row, self.unit) for row in first)
        raise TooManyBadRowsError(
            f"source '{self.name}': {bad} of {pluralize(rows, 'row')} in {self.within(plan)} are no records, more than "
            f"max_bad_share={self.source.max_bad_share}; nothing was loaded: {self.cure}. "
            f"{'The first' if count > len(first) else 'They are'}: {shown}. All are kept in {table}",
            source=self.name,
            table=table,
        )

    def within(self, plan: EpochPlan) -> str:
        """Words of a message for what contains the rows of an epoch."""
        return plan.reads.description if plan.reads is not None else self.name

    def records_of(self, rows: DataFrame) -> DataFrame:
        """Declared rows as `to_records` gives them, with their partitions."""
        parsed = to_records(rows, self.source)
        return parsed.select("*", partition_of(F.col("key"), self.node.partitions).alias("partition"))

    @property
    def source(self) -> Source:
        """The declared source."""
        assert self.node.source is not None
        return self.node.source

    @property
    def name(self) -> str:
        """The name of the source in messages."""
        return f"{self.node.pipeline.name}.{self.node.name}"

    def open_letters(self) -> OpenLetters:
        """Dead letters that no epoch has retried."""
        return self.so_far(self.note()).open

    def without_failing_records(self, spark: SparkSession, plan: EpochPlan, error: Exception) -> EpochPlan | None:
        """None: a row that is not a record is a dead letter, and does not fail the epoch."""
        return None

    def give_up(self, is_running: Callable[[Node], bool]) -> None:
        """Nothing: the source's system keeps no state."""

    def position(self, note: CommitNote | None) -> _Range | None:
        """The range of the last committed epoch; None before the first, or if it was of another kind.

        Raises
        ------
        EpochRefusedError
            ``position_lost``, if the epoch log does not have the plan of that epoch.
        """
        if note is None:
            return None
        plan = self.log.plan_of(self.node.name, note.epoch)
        if plan is None:
            raise self.position_lost(
                f"source '{self.name}': the epoch log has no plan of epoch {note.epoch}, so that it is unknown up to "
                f"where its {self.read_word} was read: put the log back ({self.log.path}), or run "
                f"`rivermeet rebuild {self.node.pipeline.name} --select {self.node.name}`",
                source=self.name,
                epoch=note.epoch,
            )
        if isinstance(plan.reads, self.ranges):
            return cast(_Range, plan.reads)
        # The source read another kind before or since.
        return next(reversed(self.ranges_of(self.so_far(note).plans)), None)

    def ranges_of(self, plans: Iterable[EpochPlan]) -> list[_Range]:
        """The ranges of these plans, of the current kind of the source."""
        return [cast(_Range, plan.reads) for plan in plans if isinstance(plan.reads, self.ranges)]

    def note(self) -> CommitNote | None:
        """The note of the node's newest commit."""
        found = last_note(self.paths.changelog)
        return found[1] if found else None

    def so_far(self, note: CommitNote | None) -> SourceHistory:
        """The plans of the incarnation up to a commit."""
        return self.read_history(note.since, note.epoch) if note else SourceHistory((), self.paths.dead_letter)

    def read_history(self, since: int, upto: int) -> SourceHistory:
        """The plans of committed epochs of an incarnation, from epoch ``since`` to ``upto``."""
        plans = self.log.open_plans(self.node.name, since - 1)
        return SourceHistory([plan for epoch, plan in plans.items() if epoch <= upto], self.paths.dead_letter)


def _show_row(row: Row, unit: str) -> str:
    if row.text is None:
        return f"{row.file} ({row.reason})"
    place = f"{unit} {row.line}" if row.line is not None else f"bad row {row.position}"
    text = row.text if len(row.text) <= limits.MESSAGE_WIDTH else f"{row.text[: limits.MESSAGE_WIDTH]}…"
    return f"{row.file}, {place}: {json.dumps(text, ensure_ascii=False)} ({row.reason})"


@dataclass(frozen=True)
class OpenLetters:
    """Open dead letters: their epochs, files that are dead as a whole, and the total number of letters."""

    epochs: tuple[int, ...] = ()
    files: frozenset[str] = frozenset()
    count: int = 0


def open_letters(path: str, plans: Sequence[EpochPlan]) -> OpenLetters:
    """The open letters at ``path``, of the committed plans of the source's incarnation; read without Spark."""
    table = open_table(path)
    if table is None:
        return OpenLetters()
    committed = {plan.epoch for plan in plans}
    retried = {epoch for plan in plans for epoch in plan.retries}
    last_read = {path: plan.epoch for plan in plans if plan.reads for path in plan.reads.paths}
    dataset = table.to_pyarrow_dataset()
    if "position" not in dataset.schema.names:
        return OpenLetters()
    # Letters of releases before 0.2 have no position, and cannot be parsed again.
    of_open = pc.field("epoch").isin(sorted(committed - retried)) & pc.field("position").is_valid()
    lines = dataset.to_table(["epoch", "file", "position"], filter=of_open).to_pylist()
    letters = [
        line for line in lines if line["position"] > 0 or last_read.get(line["file"], line["epoch"]) <= line["epoch"]
    ]
    return OpenLetters(
        tuple(sorted({line["epoch"] for line in letters})),
        frozenset(line["file"] for line in letters if line["position"] == 0),
        len(letters),
    )
