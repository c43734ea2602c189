"""Pipelines in Dagster, beside assets of one's own: definitions to merge, and a component for a `defs.yaml`.

    defs = dg.Definitions.merge(definitions(Project.find(__file__)), dg.Definitions(assets=[seats]))

Held by ``tests/assets/test_own_dagster.py``.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from rivermeet.assets.definitions import definitions
from rivermeet.assets.defs.keys import changelog_key, table_key
from rivermeet.assets.defs.resource import ProjectResource as Rivermeet
from rivermeet.assets.project import Project

__all__ = ["Rivermeet", "RivermeetProject", "changelog_key", "definitions", "table_key"]


class RivermeetProject(dg.Component, dg.Model, dg.Resolvable):
    """The pipelines of a project, for a project that Dagster's own scaffold made.

    In a ``defs.yaml``::

        type: rivermeet.dagster.RivermeetProject
        attributes:
          project: ../../../..

    Attributes
    ----------
    project
        The project's folder, or one inside it, from the folder of the ``defs.yaml``.
    """

    project: str = "."

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Its definitions; `definitions` has what they are."""
        return definitions(Project.find(Path(context.path, self.project).resolve()))
