"""A pipeline in a home of its own, on the engine of all tests: delivered to and run as `rivermeet run` does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rivermeet.assets.defs.keys import keys_of
from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.assets.defs.resource import PlatformResource
from rivermeet.assets.defs.runs import QUIET, prepare_instance, run_pipeline
from rivermeet.assets.epoch.platform import OnEngine, Platform
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Node, Pipeline


@dataclass
class Home:
    """The pipeline, what its last run said, and the Dagster instance that has its history."""

    platform: Platform
    pipeline: Pipeline
    instance: dg.DagsterInstance
    said: list[str] = field(default_factory=list)

    @property
    def data(self) -> Path:
        """What the files of sources lie below."""
        return Path(self.platform.settings.data)

    def run(self) -> bool:
        """Materialise all nodes; whether every step and check was green."""
        self.said.clear()
        return run_pipeline(self.platform, self.pipeline)

    def checks_alone(self, selection: dg.AssetSelection) -> dg.ExecuteInProcessResult:
        """Execute checks and materialise nothing."""
        return dg.materialize(
            [node_assets(node) for node in self.pipeline.stored],
            selection=selection,
            resources={"rivermeet": PlatformResource()},
            instance=self.instance,
            run_config=QUIET,
            raise_on_error=False,
        )

    def checks_of(self, nodes: Sequence[Node]) -> dg.ExecuteInProcessResult:
        """Execute all checks of some nodes."""
        keys = [key for node in nodes for key in keys_of(node)]
        return self.checks_alone(dg.AssetSelection.checks_for_assets(*keys))


def asked(platform: Platform, query: str) -> list[dict[str, Any]]:
    """Rows of a query, as `rivermeet sql` gives them."""
    return platform.ask(query).to_pylist()


@contextmanager
def homed(pipeline: Pipeline, folder: Path, engine: Settings) -> Iterator[Home]:
    """The pipeline with all that runs write in ``folder``."""
    private = replace(engine, home=folder, tables=str(folder / "tables"), data=str(folder / "data"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DAGSTER_HOME", str(private.dagster_home))
        patched.setattr("rivermeet.assets.epoch.platform._current", None)
        prepare_instance(private)
        with dg.DagsterInstance.get() as instance:
            home = Home(OnEngine(private, engine=engine), pipeline, instance)
            home.platform.say = home.said.append
            yield home
