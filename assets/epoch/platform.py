"""Settings and sessions of this process, and the context of each pipeline's epochs that is made of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from threading import RLock, local
from typing import TYPE_CHECKING, NamedTuple

from rivermeet.infra.settings import Settings, SettingsError
from rivermeet.pipelines import DeltaTable, Kafka, Node, Pipeline, Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermeet.infra.epochs.context import EpochContext, Quality
    from rivermeet.infra.epochs.step import Step
    from rivermeet.infra.kafka.lag import PartitionLag
    from rivermeet.infra.sources.delta.ingest import DeltaStep
    from rivermeet.infra.sources.ingest import IngestStep
    from rivermeet.infra.sources.kafka.connection import Connection
    from rivermeet.infra.sources.kafka.formats.registry import Registry
    from rivermeet.infra.sources.kafka.ingest import TopicStep
    from rivermeet.infra.sources.postgres.ingest import PostgresStep
    from rivermeet.infra.sources.postgres.lag import WalLag


EPOCHS = "_epochs"
QUALITY = "_quality"
"""Folders of epoch logs and of verdicts among tables; no pipeline can be called so."""


@dataclass
class Platform:
    """One set of settings and the sessions under it.

    Attributes
    ----------
    say
        Called with a line of progress.
    """

    settings: Settings
    say: Callable[[str], None] = lambda line: None
    _runners: dict[str, EpochContext] = field(default_factory=dict)
    _sessions: local = field(default_factory=local, repr=False)
    _opened: list[SparkSession] = field(default_factory=list, repr=False)
    _opening: RLock = field(default_factory=RLock, repr=False)

    @cached_property
    def code_version(self) -> str:
        """Version of the operators, written into every plan."""
        return version("rivermeet")

    def session(self) -> SparkSession:
        """The process's session, opened on first use; a thread that uses its own has one beside it."""
        base = self._base()
        return base if not self._owned() else self._own("epochs", base)

    def fold_session(self) -> SparkSession:
        """A session that only MERGEs use; renewed with the process's session."""
        return self._own("folds", self._base())

    @property
    def opens_sessions(self) -> bool:
        """Whether the engine is another process, which computes for several sessions of this one at once."""
        return self.settings.engine == "auto" or self.settings.engine.startswith("sc://")

    def use_own_sessions(self) -> None:
        """Let this thread have sessions of its own: two queries of one session drop each other's views."""
        self._sessions.own = True

    def interrupt(self) -> None:
        """Stop what all sessions of this platform are computing."""
        for spark in list(self._opened):
            with suppress(Exception):  # it has just ended by itself
                spark.interruptAll()

    def _owned(self) -> bool:
        return getattr(self._sessions, "own", False)

    def _own(self, what: str, base: SparkSession) -> SparkSession:
        """The session of this thread for epochs or folds; renewed with that of the process."""
        from rivermeet.infra.engine.session import new_session

        known = self._sessions.__dict__.get(what)
        if known is None or known[0] is not base:
            made = new_session(base)
            known = (base, made)
            self._sessions.__dict__[what] = known
            self._opened.append(made)
        return known[1]

    def _base(self) -> SparkSession:
        from rivermeet.infra.engine.session import session

        with self._opening:
            return session(self._engine_settings())

    def _engine_settings(self) -> Settings:
        return self.settings

    @property
    def quality(self) -> Quality:
        """Where verdicts are kept."""
        from rivermeet.infra.delta.location import is_local
        from rivermeet.infra.epochs.context import Quality

        home, tables = self.settings.home, self.settings.tables
        # Of tables behind a URL, a home is what one machine happens to have.
        table = str(home / "quality") if is_local(tables) else f"{tables.rstrip('/')}/{QUALITY}"
        own = self.settings
        return Quality(table, home / "locks" / "quality.lock", own.judge, own.judge_memory, own.spill)

    def runner(self, pipeline: Pipeline) -> EpochContext:
        """The context of a pipeline's epochs."""
        if pipeline.name not in self._runners:
            from rivermeet.infra.epochs.context import EpochContext
            from rivermeet.infra.epochs.log import EpochLog
            from rivermeet.infra.epochs.node_lock import lock_folder

            locks = self.settings.home / "locks"
            locks.mkdir(parents=True, exist_ok=True)
            folder = lock_folder(self.settings.tables, EPOCHS, pipeline.name, locks)
            folder.mkdir(parents=True, exist_ok=True)
            log = EpochLog(self.epochs(pipeline), str(folder / ".lock"))
            engine = self.settings.engine_home if self.settings.engine == "auto" else None
            self._runners[pipeline.name] = EpochContext(
                self.settings.tables,
                log,
                locks,
                self.session,
                self.fold_session,
                folds=self.settings.fold,
                engine=engine,
                quality=self.quality,
                lease_seconds=self.settings.lease_seconds,
            )
        return self._runners[pipeline.name]

    def epochs(self, pipeline: Pipeline) -> str:
        """Location of a pipeline's epoch log: in the home, or with tables that several homes may share.

        It records which files were consumed and which plan is open. Two homes with a log each over the same tables
        would read every file twice (``tests/infra/epochs/test_two_at_once.py``).
        """
        if self.settings.tables == str(self.settings.home / "tables"):
            return str(self.settings.home / "epochs" / pipeline.name)
        return f"{self.settings.tables.rstrip('/')}/{EPOCHS}/{pipeline.name}"

    def step(self, node: Node) -> Step:
        """The node's part in an epoch."""
        from rivermeet.assets.epoch.operator_step import OperatorStep

        if node.operation is None:
            return self.source_step(node)
        return OperatorStep(
            node, self.settings.tables, self.code_version, session=self.session, log=self.runner(node.pipeline).log
        )

    def source_step(self, node: Node) -> IngestStep | TopicStep | DeltaStep | PostgresStep:
        """A source's part in an epoch."""
        from rivermeet.infra.sources.ingest import IngestStep

        context, settings = self.runner(node.pipeline), self.settings
        changelog = context.paths(node).changelog
        landing = settings.landing / node.pipeline.name / node.name
        assert node.source is not None
        if isinstance(node.source.reads, Kafka):
            from rivermeet.infra.sources.kafka.ingest import TopicStep

            step = TopicStep(node, changelog, context.log, self.connection, self.registry, landing, self.code_version)
            if settings.topic_reader == "driver":
                return step
            from rivermeet.infra.sources.kafka.engine_reader import slice_rows

            return replace(step, by_engine=partial(slice_rows, settings))
        if isinstance(node.source.reads, DeltaTable):
            from rivermeet.infra.sources.delta.ingest import DeltaStep

            return DeltaStep(node, changelog, context.log, settings.data, self.code_version)
        if isinstance(node.source.reads, Postgres):
            from rivermeet.infra.epochs.node_lock import lock_folder
            from rivermeet.infra.postgres.connection import Database
            from rivermeet.infra.sources.postgres.ingest import PostgresStep
            from rivermeet.infra.sources.postgres.slot import PipelineSlot

            database = Database(settings.postgres, node.source.reads.database)
            lock = lock_folder(settings.tables, EPOCHS, node.pipeline.name, context.locks) / f".{database.name}.lock"
            slot = PipelineSlot(database, context.log, str(lock), node.pipeline.name)
            return PostgresStep(node, changelog, context.log, slot, landing, self.code_version)
        lands = landing if self._engine_settings().lands_files else None
        return IngestStep(node, changelog, context.log, settings.data, self.session, self.code_version, landing=lands)

    def topic_lag(self, node: Node) -> list[PartitionLag]:
        """How far a source is behind its topic, per partition; asks the broker.

        Raises
        ------
        EpochRefusedError
            Where the next run would be refused: the topic was made anew, or has lost records.
        """
        from rivermeet.infra.kafka.lag import lag_of
        from rivermeet.infra.sources.kafka.ingest import TopicStep
        from rivermeet.infra.sources.kafka.topic import problem

        step = self.source_step(node)
        assert isinstance(step, TopicStep), f"{node.name} reads a topic"
        read, state = step.position(step.note()), step.state()
        if read is not None:
            # Of a topic that was made anew the offsets that were read say nothing.
            ends = {p: end for p, (_, end) in read.ranges.items()}
            refused = problem(state, read.topic, read.id, ends, ends, f"{node.pipeline.name}.{node.name}")
            if refused is not None:
                raise refused
        return lag_of(read, state)

    def table_lag(self, node: Node) -> WalLag | None:
        """How far a source is behind its table of PostgreSQL; None where it was never read. Asks the server."""
        from rivermeet.infra.sources.postgres.ingest import PostgresStep
        from rivermeet.infra.sources.postgres.lag import lag_of

        step = self.source_step(node)
        assert isinstance(step, PostgresStep), f"{node.name} reads a table"
        read = step.position(step.note())
        return None if read is None else lag_of(step.database, step.slot, read)

    def unread(self, node: Node) -> Unread | None:
        """What a source has not read of its table; None where it has read nothing yet. Asks where the table is.

        Raises
        ------
        EpochRefusedError
            Where the next run would be refused.
        """
        from rivermeet.infra.sources.delta.ingest import DeltaStep
        from rivermeet.infra.sources.postgres.ingest import PostgresStep

        step = self.source_step(node)
        if isinstance(step, DeltaStep):
            if step.note() is None:
                return None
            changed = [one for one in step.unread() if one.fed]
            return Unread(len(changed), "versions", changed[0].timestamp if changed else None)
        assert isinstance(step, PostgresStep), f"{node.name} reads a table"
        read = step.position(step.note())
        with step.database.asked() as connection:
            for problem in step.problems(connection, read):
                raise problem
        lag = self.table_lag(node)
        if lag is None:
            return None
        since = None if lag.since_ms is None else round(time.time() * 1000) - lag.since_ms
        return Unread(lag.behind, "bytes", since)

    @cached_property
    def connection(self) -> Connection:
        """The broker that topics are read from and written to."""
        from rivermeet.infra.sources.kafka.connection import Connection

        return Connection(self.settings.kafka)

    @cached_property
    def registry(self) -> Registry:
        """The schema registry, and the schemas that it gave."""
        from rivermeet.infra.sources.kafka.formats.registry import Registry

        return Registry(self.settings.schema_registry, self.settings.schemas)


class Unread(NamedTuple):
    """What was not read of a table: how much, of what, and when the first change of it was committed (epoch millis).

    ``since`` is None where no change is in it.
    """

    amount: int
    unit: str
    since: int | None


@dataclass
class OnEngine(Platform):
    """A platform with a home of its own on the engine of another."""

    engine: Settings | None = None

    def _engine_settings(self) -> Settings:
        assert self.engine is not None
        return self.engine


_current: Platform | None = None


def current() -> Platform:
    """The platform of this process; made from the environment unless `use` gave one."""
    return _current or use(Platform(Settings.from_env()))


def use(platform: Platform) -> Platform:
    """Make a platform the one of this process."""
    global _current
    _current = platform
    return platform


def data_root(settings: Settings) -> Path:
    """The data folder, where it is a folder of this machine."""
    if "://" in settings.data:
        raise SettingsError(f"RIVERMEET_DATA={settings.data} is no local folder; feeds write to one")
    return Path(settings.data)
