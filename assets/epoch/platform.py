"""Settings and sessions of this process, and the context of each pipeline's epochs that is made of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from threading import RLock, local
from typing import TYPE_CHECKING, Any

from rivermeet.infra.settings import Settings, SettingsError
from rivermeet.pipelines import Node, Pipeline

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

    from rivermeet.assets.sql.query import CommittedState
    from rivermeet.infra.epochs.context import EpochContext, Quality
    from rivermeet.infra.epochs.step import Step
    from rivermeet.infra.kafka.connection import Connection
    from rivermeet.infra.kafka.formats.registry import Registry
    from rivermeet.infra.sources.kind import SourceContext
    from rivermeet.infra.sources.source_step import SourceStep


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

    def ask(self, query: str, as_json: bool = False) -> pyarrow.Table:
        """Rows of a query over what is committed, as `rivermeet sql` reads it; needs no engine.

        Raises
        ------
        QueryError
            If the text is no query, or names a table that is not there.
        """
        return self.committed.ask(query, self.settings.judge_memory, self.settings.spill, as_json)

    @property
    def committed(self) -> CommittedState:
        """What is committed, to be queried without an engine."""
        from rivermeet.assets.sql.query import CommittedState

        return CommittedState(self.settings.tables, self.quality.table)

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

    def source_step(self, node: Node) -> SourceStep[Any]:
        """A source's part in an epoch, as its kind makes it."""
        from rivermeet.infra.source_kinds import kind_of

        kind = kind_of(node)
        assert kind is not None, f"{node.name} is a source"
        return kind.step(self._source_context(node.pipeline), node)

    def _source_context(self, pipeline: Pipeline) -> SourceContext:
        from rivermeet.infra.epochs.node_lock import lock_folder
        from rivermeet.infra.sources.kind import SourceContext

        epochs, tables = self.runner(pipeline), self.settings.tables
        return SourceContext(
            self.settings,
            epochs,
            lock_folder(tables, EPOCHS, pipeline.name, epochs.locks),
            self.session,
            self._engine_settings().lands_files,
            self.code_version,
            lambda: self.connection,
            lambda: self.registry,
        )

    @cached_property
    def connection(self) -> Connection:
        """The broker that topics are read from and written to."""
        from rivermeet.infra.kafka.connection import Connection

        return Connection(self.settings.kafka)

    @cached_property
    def registry(self) -> Registry:
        """The schema registry, and the schemas that it gave."""
        from rivermeet.infra.kafka.formats.registry import Registry

        return Registry(self.settings.schema_registry, self.settings.schemas)


@dataclass
class OnEngine(Platform):
    """A platform with a home of its own on the engine of another."""

    engine: Settings | None = None

    def _engine_settings(self) -> Settings:
        assert self.engine is not None
        return self.engine


_current: Platform | None = None
_made: dict[Settings, Platform] = {}


def current(project: str = "") -> Platform:
    """The platform of this process: what `use` was given, or else that of a project, by default the one worked in."""
    if _current is not None:
        return _current
    settings = Settings.from_env({**os.environ, "RIVERMEET_PROJECT": project} if project else None)
    return _made.setdefault(settings, Platform(settings))


def use(platform: Platform) -> Platform:
    """Make a platform the one of this process."""
    global _current
    _current = platform
    return platform


def data_root(settings: Settings) -> Path:
    """The data folder, where it is a folder of this machine."""
    if "://" in settings.data:
        raise SettingsError(
            f"RIVERMEET_DATA={settings.data} is no local folder; feeds write to one", variable="RIVERMEET_DATA"
        )
    return Path(settings.data)
