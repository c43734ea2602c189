"""The platform as a Dagster resource, and what a run leaves to its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import PrivateAttr

from assets.defs.processes import PROCESS, close_runs_of_the_dead, hold_process, is_held_here
from assets.epoch.platform import Platform, current
from infra.held_file import HeldFile

if TYPE_CHECKING:
    from assets.epoch.run import Outcome
    from assets.epoch.side_by_side import SideBySide
    from pipelines import Node


class PlatformResource(dg.ConfigurableResource):
    """Gives steps the platform of their process; its Spark session opens when a step first needs it."""

    rebuild: dict[str, int | None] | None = None
    """Nodes that are recomputed from offset 0, with the grace (ms) in place of the declared one."""
    _shown: set[str] = PrivateAttr(default_factory=set)
    _judged: bool = PrivateAttr(default=False)
    _nodes: SideBySide | None = PrivateAttr(default=None)
    _process: HeldFile | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Say which process executes the run, where nobody has: it was launched from Dagster's page or a schedule."""
        run, instance = context.run, context.instance
        if run is not None and instance is not None and not is_held_here(instance, run):
            self._process = hold_process(instance)
            instance.add_run_tags(run.run_id, {PROCESS: self._process.file.name})
            for line in close_runs_of_the_dead(instance):
                if context.log is not None:
                    context.log.warning(line)

    @property
    def shown(self) -> set[str]:
        """Nodes with nothing new whose verdicts this run has recorded."""
        return self._shown

    def outcome(self, node: Node, nodes: Sequence[Node], run_id: str) -> Outcome:
        """What the run of a node came to; the first call starts all ``nodes`` of the run, side by side."""
        from assets.epoch.side_by_side import SideBySide
        from infra.epochs.stages.plan import Rebuild

        if self._nodes is None:
            if any(one.pipeline.shadows for one in nodes):
                from assets.shadow.marks import mark_run

                mark_run(self.platform, nodes, run_id)
            rebuild = {name: Rebuild(grace) for name, grace in (self.rebuild or {}).items()}
            self._nodes = SideBySide(self.platform, nodes, run_id, rebuild)
        return self._nodes.outcome(node)

    def waits(self, node: Node) -> bool:
        """Whether a node below one with nothing new has something to do, or has done it in this run, or to refuse."""
        from assets.epoch.materialise import must_run

        if self._nodes is not None and self.platform.opens_sessions:
            return self._nodes.did_something(node)
        return must_run(self.platform, node)

    def list_verdicts(self) -> None:
        """Note that this run has judged, so that the index of Data Docs is written at its end."""
        self._judged = True

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End what an interrupted run has started, and write the index of Data Docs; no run fails by that."""
        if self._nodes is not None:
            self._nodes.close()
        if self._judged:
            self._write_index(context)
        if self._process is not None:
            self._process.let_go()

    @staticmethod
    def _write_index(context: dg.InitResourceContext) -> None:
        try:
            from expectations.gx.data_docs import write_index

            write_index(current().settings.reports / "gx")
        except Exception:  # whatever a template or a disk may raise
            if context.log is not None:
                context.log.exception("the index of Data Docs is not up to date")

    @property
    def platform(self) -> Platform:
        """The platform of the process."""
        return current()
