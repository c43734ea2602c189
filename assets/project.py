"""A project: a folder with a `rivermeet.toml`, its settings, and the pipelines that its files declare.

    shop/
      rivermeet.toml
      pipelines/till.py        PIPELINE = Pipeline("till")

    Project.find("shop/pipelines").pipeline("till")

It is found from a folder upwards, so that commands work anywhere inside it. Held by ``tests/pipelines/test_files.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rivermeet.infra.project_file import FILE, ProjectFileError, find_project
from rivermeet.infra.settings import PROJECT, Settings, project_file
from rivermeet.pipelines.errors import NotFoundError
from rivermeet.pipelines.files import BrokenFile, PipelineFileError, load_files
from rivermeet.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from rivermeet.assets.sql.rows import NodeRows

DEMO = ("pipelines/flights.py", "pipelines/invoice.py")
"""Files of the pipelines that come along."""


@dataclass(frozen=True)
class Project:
    """What a project's folder says.

    Attributes
    ----------
    root
        The folder of its `rivermeet.toml`.
    settings
        The file's, and those of the environment, which win.
    pipelines
        All pipelines that can be loaded, by name.
    problems
        Files that cannot be loaded, each with its error.
    """

    root: Path
    settings: Settings
    pipelines: tuple[Pipeline, ...]
    problems: tuple[BrokenFile, ...] = ()

    @classmethod
    def find(cls, start: str | Path | None = None, env: Mapping[str, str] | None = None) -> Project:
        """Find and load the project that a folder or a file is in.

        Parameters
        ----------
        start
            Where to look, from there upwards. Default: ``RIVERMEET_PROJECT``, or else the current folder.
        env
            Stands in for ``os.environ``.

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
        return cls(file.root, Settings.from_env(env), *load_files(file.root, file.pipelines))

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
        there = ", ".join(p.name for p in self.pipelines) or f"none in {self.root}"
        raise NotFoundError(f"no pipeline '{name}'; there are {there}{problems}")

    def table(self, name: str) -> NodeRows:
        """What a node has now, as of its newest commit: ``table("shop.settled").to_pandas()``.

        Parameters
        ----------
        name
            ``PIPELINE.NODE``, or one of its tables, such as ``shop.settled.late``, as `rivermeet sql` names them.

        Returns
        -------
        NodeRows
            The rows for ``to_arrow()``, ``to_pandas()``, ``to_polars()`` or ``to_duckdb()``, and for whatever takes
            Arrow's own interface, as ``polars.DataFrame`` does; a notebook shows them.

        Raises
        ------
        QueryError
            If there is no such node, or it has committed nothing.
        """
        from rivermeet.assets.sql.rows import node_rows

        return node_rows(self.settings, name)


def load(name: str) -> Pipeline:
    """A pipeline of the project that is worked in; errors as of `Project`."""
    return Project.find().pipeline(name)


def demo_pipeline(name: str) -> Pipeline:
    """A pipeline of `rivermeet demo`, which comes with Rivermeet; errors as of `Project.pipeline`."""
    return Project(PROJECT, Settings.from_env(), *load_files(PROJECT, DEMO)).pipeline(name)


def _nowhere(start: Path) -> ProjectFileError:
    return ProjectFileError(
        f"{start.absolute()} is in no project, no folder above it has a {FILE}: `rivermeet init NAME` writes one, "
        "--project names one"
    )
