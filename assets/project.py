"""A project: a folder with a `rivermeet.toml`, its settings, and the pipelines that its files declare.

    shop/
      rivermeet.toml
      pipelines/till.py        PIPELINE = Pipeline("till")

    Project.find("shop/pipelines").pipeline("till")

It is found from a folder upwards, so that commands work anywhere inside it. Whatever runs is given one that its entry
has made: a command, Dagster's definitions, a test. No module knows a project of the process, so that two in one process
do not meet. Held by ``tests/pipelines/test_files.py`` and ``tests/assets/test_project.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.kafka.connection import Connection
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.project_file import FILE, ProjectFileError, find_project
from rivermeet.infra.settings import PROJECT, Settings, project_file
from rivermeet.pipelines import Node
from rivermeet.pipelines.errors import NotFoundError
from rivermeet.pipelines.files import BrokenFile, PipelineFileError, load_files
from rivermeet.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    import pyarrow

    from rivermeet.assets.sql.query import CommittedState, NodeRows
    from rivermeet.expectations.gx.data_docs import PageWriter
    from rivermeet.infra.epochs.context import EpochContext, Quality
    from rivermeet.infra.sources.source_step import SourceStep

DEMO = ("pipelines/flights.py", "pipelines/invoice.py")
"""Files of the pipelines that come along."""
EPOCHS = "_epochs"
QUALITY = "_quality"
"""Folders of epoch logs and of verdicts among tables; no pipeline can be called so."""


@dataclass(frozen=True, eq=False)
class Project:
    """What a project's folder says, and what runs of it share: sessions, locations, the broker.

    Attributes
    ----------
    settings
        The file's, and those of the environment, which win.
    sessions
        Those on the engine that it uses; ``replace(project, settings=…)`` is another project on the same engine.
    pipelines
        All pipelines that can be loaded, by name.
    problems
        Files that cannot be loaded, each with its error.
    say
        Called with a line of progress.
    """

    settings: Settings
    sessions: Sessions = field(repr=False)
    pipelines: tuple[Pipeline, ...] = ()
    problems: tuple[BrokenFile, ...] = ()
    say: Callable[[str], None] = field(default=lambda line: None, repr=False)
    _contexts: dict[str, EpochContext] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def find(
        cls,
        start: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> Project:
        """Find and load the project that a folder or a file is in.

        Parameters
        ----------
        start
            Where to look, from there upwards. Default: ``RIVERMEET_PROJECT``, or else the current folder.
        env
            Stands in for ``os.environ``.
        say
            Called with a line of progress.

        Raises
        ------
        ProjectFileError
            If there is none, or its file cannot be read.
        SettingsError
            If a setting has a value that cannot be used.
        """
        env = os.environ if env is None else env
        if start is not None:
            root = find_project(Path(start))
            if root is None:
                raise _nowhere(Path(start))
            env = {**env, "RIVERMEET_PROJECT": str(root)}
        file = project_file(env)
        if file is None:
            raise _nowhere(Path.cwd())
        settings = Settings.from_env(env)
        return cls(settings, Sessions(settings), *load_files(file.root, file.pipelines), say)

    @property
    def root(self) -> Path:
        """The folder of its `rivermeet.toml`."""
        assert self.settings.project is not None, "what was found is in a folder"
        return self.settings.project

    def pipeline(self, name: str) -> Pipeline:
        """The pipeline of that name.

        Raises
        ------
        PipelineFileError
            If its file cannot be loaded, or it is declared by several.
        NotFoundError
            With the choices, and the files that cannot be loaded, where there is none.
        """
        for pipeline in self.pipelines:
            if pipeline.name == name:
                return pipeline
        own = [file for file in self.problems if file.pipeline == name]
        if own:
            raise PipelineFileError(str(own[0]))
        problems = "".join(f"; not loaded: {file}" for file in self.problems)
        there = ", ".join(p.name for p in self.pipelines) or f"none in {self.settings.project}"
        raise NotFoundError(f"no pipeline '{name}'; there are {there}{problems}")

    def table(self, name: str) -> NodeRows:
        """What a node has now, as of its newest commit: ``table("shop.settled").to_pandas()``; needs no engine.

        Parameters
        ----------
        name
            ``PIPELINE.NODE``, or one of its tables, such as ``shop.settled.late``, as `rivermeet sql` names them.

        Raises
        ------
        QueryError
            If there is no such node, or it has committed nothing.
        """
        from rivermeet.assets.sql.query import NodeRows, select_all

        return NodeRows(self.ask(select_all(name)))

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

    @property
    def quality(self) -> Quality:
        """Where verdicts are kept."""
        from rivermeet.infra.delta.location import is_local
        from rivermeet.infra.epochs.context import Quality

        own = self.settings
        # Of tables behind a URL, a home is what one machine happens to have.
        table = str(own.home / "quality") if is_local(own.tables) else f"{own.tables.rstrip('/')}/{QUALITY}"
        return Quality(table, own.home / "locks" / "quality.lock", own.judge, own.judge_memory, own.spill)

    def paths(self, node: Node) -> NodeTables:
        """Locations of a node's tables."""
        return NodeTables(self.settings.tables, node.pipeline.name, node.name)

    def epochs(self, pipeline: Pipeline) -> str:
        """Location of a pipeline's epoch log: in the home, or with tables that several homes may share.

        It records which files were consumed and which plan is open. Two homes with a log each over the same tables
        would read every file twice (``tests/infra/epochs/test_two_at_once.py``).
        """
        if self.settings.tables == str(self.settings.home / "tables"):
            return str(self.settings.home / "epochs" / pipeline.name)
        return f"{self.settings.tables.rstrip('/')}/{EPOCHS}/{pipeline.name}"

    def context(self, pipeline: Pipeline) -> EpochContext:
        """What the epochs of a pipeline are given; one for all runs, as they share its locks."""
        if pipeline.name not in self._contexts:
            from rivermeet.infra.epochs.context import EpochContext
            from rivermeet.infra.epochs.log import EpochLog
            from rivermeet.infra.epochs.node_lock import lock_folder

            own, engine = self.settings, self.sessions.settings
            folder = lock_folder(own.tables, EPOCHS, pipeline.name, own.home / "locks")
            for made in (own.home / "locks", folder):
                made.mkdir(parents=True, exist_ok=True)
            self._contexts[pipeline.name] = EpochContext(
                own.tables,
                EpochLog(self.epochs(pipeline), str(folder / ".lock")),
                own.home / "locks",
                self.sessions.open,
                self.sessions.open_for_folds,
                folds=own.fold,
                engine=engine.engine_home if engine.engine == "auto" else None,
                quality=self.quality,
                lease_seconds=own.lease_seconds,
            )
        return self._contexts[pipeline.name]

    def source_step(self, node: Node) -> SourceStep[Any]:
        """A source's part in an epoch, as its kind makes it."""
        from rivermeet.infra.source_kinds import kind_of
        from rivermeet.infra.sources.kind import SourceContext

        kind = kind_of(node)
        assert kind is not None, f"{node.name} is a source"
        clients = (lambda: self.connection), (lambda: self.registry)
        return kind.step(SourceContext(self.settings, self.sessions, *clients, self.context(node.pipeline)), node)

    @cached_property
    def pages(self) -> PageWriter:
        """Writes the page of Data Docs of a run of this process."""
        from rivermeet.expectations.gx.data_docs import PageWriter

        return PageWriter()

    @cached_property
    def connection(self) -> Connection:
        """The broker that topics are read from and written to."""
        return Connection(self.settings.kafka)

    @cached_property
    def registry(self) -> Registry:
        """The schema registry, and the schemas that it gave."""
        return Registry(self.settings.schema_registry, self.settings.schemas)


def demo_project(say: Callable[[str], None] = lambda line: None) -> Project:
    """The pipelines of `rivermeet demo`, which come with Rivermeet, under the settings of where one works."""
    settings = Settings.from_env()
    return Project(settings, Sessions(settings), *load_files(PROJECT, DEMO), say)


def _nowhere(start: Path) -> ProjectFileError:
    return ProjectFileError(
        f"{start.absolute()} is in no project, no folder above it has a {FILE}: `rivermeet init NAME` writes one, "
        "--project names one"
    )
