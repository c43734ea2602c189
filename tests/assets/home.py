"""A pipeline in a home of its own, on the engine of all tests: delivered to and run as `rivermeet run` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rivermeet.assets.defs.keys import keys_of
from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.defs.runs import QUIET, prepare_instance, run_pipeline
from rivermeet.assets.project import Project
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Node, Pipeline


@dataclass
class Home:
    """The pipeline, what its last run said, and the Dagster instance that has its history."""

    project: Project
    pipeline: Pipeline
    instance: dg.DagsterInstance
    said: list[str]

    @property
    def data(self) -> Path:
        """What the files of sources lie below."""
        return Path(self.project.settings.data)

    def run(self) -> bool:
        """Materialise all nodes; whether every step and check was green."""
        self.said.clear()
        return run_pipeline(self.project, self.pipeline)

    def checks_alone(self, selection: dg.AssetSelection) -> dg.ExecuteInProcessResult:
        """Execute checks and materialise nothing."""
        return dg.materialize(
            [node_assets(node) for node in self.pipeline.stored],
            selection=selection,
            resources={"rivermeet": ProjectResource(project=self.project)},
            instance=self.instance,
            run_config=QUIET,
            raise_on_error=False,
        )

    def checks_of(self, nodes: Sequence[Node]) -> dg.ExecuteInProcessResult:
        """Execute all checks of some nodes."""
        keys = [key for node in nodes for key in keys_of(node)]
        return self.checks_alone(dg.AssetSelection.checks_for_assets(*keys))


def asked(project: Project, query: str) -> list[dict[str, Any]]:
    """Rows of a query, as `rivermeet sql` gives them."""
    return project.ask(query).to_pylist()


@contextmanager
def homed(pipeline: Pipeline, folder: Path, engine: Settings, **own: Any) -> Iterator[Home]:
    """The pipeline with all that runs write in ``folder``; ``own`` are settings of its own."""
    said: list[str] = []
    project = project_in(folder, engine, pipeline, say=said.append, **own)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DAGSTER_HOME", str(project.settings.dagster_home))
        prepare_instance(project.settings)
        with dg.DagsterInstance.get() as instance:
            yield Home(project, pipeline, instance, said)


def project_in(
    folder: Path, engine: Settings, *pipelines: Pipeline, say: Callable[[str], None] = lambda line: None, **own: Any
) -> Project:
    """A project with all that it writes in ``folder``, on the engine of ``engine``; ``own`` are settings of its own."""
    places = {"home": folder, "tables": str(folder / "tables"), "data": str(folder / "data")}
    return Project(replace(engine, **places | own), Sessions(engine), pipelines, say=say)
