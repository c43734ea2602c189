"""The project as a Dagster resource, and what a run leaves to its end."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import PrivateAttr

from rivermeet.assets.defs.processes import PROCESS, close_runs_of_the_dead, hold_process, is_held_here
from rivermeet.assets.project import Project
from rivermeet.infra.held_file import HeldFile
from rivermeet.pipelines import Node, Pipeline

if TYPE_CHECKING:
    from rivermeet.assets.epoch.run import Outcome
    from rivermeet.assets.epoch.side_by_side import SideBySide
    from rivermeet.assets.sql.query import NodeRows


class ProjectResource(dg.ConfigurableResource):
    """Gives steps their project; its Spark session opens when a step first needs it."""

    project: dg.ResourceDependency[Project]
    """What definitions were made of, or what is run: a process that Dagster launches makes its own."""
    rebuild: dict[str, int | None] | None = None
    """Nodes that are recomputed from offset 0, with the grace (ms) in place of the declared one."""
    _shown: set[str] = PrivateAttr(default_factory=set)
    _judged: "dict[str, Pipeline]" = PrivateAttr(default_factory=dict)
    _nodes: "SideBySide | None" = PrivateAttr(default=None)
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

    def outcome(self, node: "Node", nodes: "Sequence[Node]", run_id: str) -> "Outcome":
        """What the run of a node came to; the first call starts all ``nodes`` of the run, side by side."""
        from rivermeet.assets.epoch.side_by_side import SideBySide
        from rivermeet.infra.epochs.stages.plan import Rebuild

        if self._nodes is None:
            if any(one.pipeline.shadows for one in nodes):
                from rivermeet.assets.shadow.marks import mark_run

                mark_run(self.project, nodes, run_id)
            rebuild = {name: Rebuild(grace) for name, grace in (self.rebuild or {}).items()}
            self._nodes = SideBySide(self.project, nodes, run_id, rebuild, self.list_verdicts)
        return self._nodes.outcome(node)

    def waits(self, node: "Node") -> bool:
        """Whether a node below one with nothing new has something to do, or has done it in this run, or to refuse."""
        from rivermeet.assets.epoch.materialise import must_run

        if self._nodes is not None and self.project.sessions.are_concurrent:
            return self._nodes.did_something(node)
        return must_run(self.project, node)

    def list_verdicts(self, node: "Node") -> None:
        """Note that this run has judged a node, so that its page of Data Docs is written at its end."""
        self._judged[node.pipeline.name] = node.pipeline
        self.project.pages.start()

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End what an interrupted run has started, and write the page of Data Docs; no run fails by that."""
        if self._nodes is not None:
            self._nodes.close()
        if self._judged:
            self._write_data_docs(context)
        self.project.pages.close()
        if self._process is not None:
            self._process.let_go()

    def _write_data_docs(self, context: dg.InitResourceContext) -> None:
        assert context.run is not None and context.instance is not None
        try:
            from rivermeet.assets.reports.quality_report import write_data_docs

            record = context.instance.get_run_record_by_id(context.run.run_id)
            since = 0 if record is None else int(record.create_timestamp.timestamp() * 1000)
            write_data_docs(self.project, self._judged.values(), context.run.run_id, since)
        except Exception:  # whatever a template or a disk may raise
            if context.log is not None:
                context.log.exception("Data Docs have no page of this run; its verdicts are kept")

    def table(self, name: str) -> "NodeRows":
        """What a node has committed; as `Project.table`."""
        return self.project.table(name)
