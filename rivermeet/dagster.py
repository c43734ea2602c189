"""Pipelines in Dagster, beside assets of one's own: definitions to merge, and a component for a `defs.yaml`.

    defs = dg.Definitions.merge(definitions(Project.find(__file__)), dg.Definitions(assets=[seats]))

Held by ``tests/assets/test_own_dagster.py`` and ``tests/project/test_wheel.py``.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
from pydantic import BaseModel, Field

from rivermeet.assets.definitions import definitions
from rivermeet.assets.defs.keys import changelog_key, table_key
from rivermeet.assets.defs.resource import ProjectResource as Rivermeet
from rivermeet.assets.project import Project

__all__ = ["Rivermeet", "RivermeetProject", "changelog_key", "definitions", "table_key"]


class ScaffoldParams(BaseModel):
    """What ``dg scaffold defs`` asks of the component."""

    project: str = Field(default=".", description="The project's folder, or one inside it, from where one is.")


class ProjectScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes the ``defs.yaml``, with the way from its folder to the project's."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """Its options."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write it, where there is such a project."""
        root = Project.find(request.params.project).root
        way = os.path.relpath(root, request.target_path.absolute())
        dg.scaffold_component(request, {"project": Path(way).as_posix()})


@dg.scaffold_with(ProjectScaffolder)
class RivermeetProject(dg.Component, dg.Model, dg.Resolvable):
    """The pipelines of a project, for a project that Dagster's own scaffold made.

    ``dg scaffold defs rivermeet.dagster.RivermeetProject shop --project shop`` writes such a ``defs.yaml``::

        type: rivermeet.dagster.RivermeetProject
        attributes:
          project: ../../../../shop

    Attributes
    ----------
    project
        The project's folder, or one inside it, from the folder of the ``defs.yaml``.
    """

    project: str = "."

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Its definitions; `definitions` has what they are."""
        return definitions(Project.find(Path(context.path, self.project).resolve()))
