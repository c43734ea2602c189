"""Plan: the offsets and versions that the epoch reads, written to the epoch log before anything is read.

| the node has | the epoch runs |
|---|---|
| a logged plan without a commit | that plan, unchanged |
| such a plan, but an input was recomputed or a file changed | a new plan; the old one is put aside with the reason |
| no open plan, and something new | a new plan |
| no open plan, and nothing new | nothing |

A rebuild puts aside all open plans and plans from offset 0, as the first epoch of a new incarnation.
Held by ``tests/infra/epochs/test_kill.py`` and ``tests/infra/epochs/test_rebuild.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rivermeet.infra import crash
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.declaration import describe_declaration, refuse_changed
from rivermeet.infra.epochs.external_modifications import ExternalModificationError, refuse_modified_node
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.epochs.step import Step
from rivermeet.pipelines import Node


@dataclass(frozen=True)
class Rebuild:
    """A request to recompute a node from offset 0, with a ``grace`` (ms) in place of the declared one if given."""

    grace: int | None = None


@dataclass(frozen=True)
class Planned:
    """The outcome of planning: no ``plan`` if nothing is new.

    ``previous`` is the note of the node's newest commit. ``aside`` are open plans that will not run, with the reasons.
    ``logged`` says whether the plan is in the epoch log already.
    """

    plan: EpochPlan | None
    previous: CommitNote | None
    aside: tuple[tuple[EpochPlan, str], ...] = ()
    logged: bool = False

    @property
    def replaces(self) -> bool:
        """Whether the epoch's commit replaces the changelog."""
        return self.plan is not None and self.plan.replaces

    @property
    def base(self) -> CommitNote | None:
        """The commit that the epoch continues from; None for the first of an incarnation."""
        return None if self.replaces else self.previous


@dataclass(frozen=True)
class Plan:
    """The stage; ``look`` writes nothing."""

    step: Step
    rebuild: Rebuild | None = None
    name: ClassVar[str] = "plan"

    def look(self, context: EpochContext) -> Planned:
        """Determine the next epoch.

        Raises `EpochRefusedError` if none may be planned: a table was modified, or the declaration changed.
        """
        node, paths = self.step.node, context.paths(self.step.node)
        version, previous = last_note(paths.changelog) or (None, None)
        committed = previous.epoch if previous else 0
        if self.rebuild is not None:
            return self._from_the_start(context, self.rebuild, previous, committed)
        standing = context.log.open_plan(node.name, committed)
        if standing is None or not standing.replaces:
            refuse_modified_node(paths, node.is_table and context.folds != "never")
            _refuse_older_copy(context, paths, committed)
            if previous is not None:
                refuse_changed(node, previous, version)
        aside: tuple[tuple[EpochPlan, str], ...] = ()
        if standing is not None:
            refuse_changed(node, standing)
            why = self.step.explain_skip(standing)
            if why is None:
                return Planned(standing, previous, logged=True)
            aside = ((standing, why),)
        plan = self.step.plan(previous, version, context.log.next_epoch(node.name, committed))
        return Planned(plan, previous, aside)

    def run(self, context: EpochContext) -> Planned:
        """Determine the next epoch, and write it to the epoch log."""
        found = self.look(context)
        for plan, why in found.aside:
            put_aside(context, plan, why)
        if self.rebuild is not None:
            crash.crash_at("refused", self.step.node.name)
        if found.plan is None or found.logged:
            return found
        committed = found.previous.epoch if found.previous else 0
        return Planned(log_plan(context, self.step.node, found.plan, committed), found.previous, found.aside, True)

    def _from_the_start(
        self, context: EpochContext, rebuild: Rebuild, previous: CommitNote | None, committed: int
    ) -> Planned:
        node = self.step.node
        open_plans = context.log.open_plans(node.name, committed)
        aside = tuple((plan, f"epoch {epoch} was put aside by a rebuild") for epoch, plan in open_plans.items())
        plan = self.step.plan(None, None, context.log.next_epoch(node.name, committed))
        if plan is not None:
            last = max(previous.incarnation if previous else 0, context.log.last_incarnation(node.name))
            plan = plan.begin_incarnation(last + 1, rebuild.grace)
        return Planned(plan, previous, aside)


def put_aside(context: EpochContext, plan: EpochPlan, why: str) -> None:
    """Mark a logged plan as one that is never run."""
    context.log.write(plan.node, plan.incarnation, plan.epoch, "refused", why)


def log_plan(context: EpochContext, node: Node, plan: EpochPlan, committed: int) -> EpochPlan:
    """Write a plan to the epoch log; return the plan that is in the log afterwards."""
    plan = plan.model_copy(update={"declared": describe_declaration(node)})
    context.log.write(plan.node, plan.incarnation, plan.epoch, "plan", plan.model_dump_json())
    # Another run may have planned the same epoch first; then this write was skipped, and the logged plan counts.
    standing = context.log.open_plan(plan.node, committed)
    assert standing is not None
    return standing


def _refuse_older_copy(context: EpochContext, paths: NodeTables, committed: int) -> None:
    beyond = max(context.log.lines(paths.node, "measured", committed), default=0)
    if beyond:
        raise ExternalModificationError(
            f"changelog of '{paths.pipeline}.{paths.node}' ends with epoch {committed}, but epoch {beyond} was "
            f"committed: an older copy is in its place, or it was removed; put the newer one back, or run "
            f"`{paths.rebuild}` (table: {paths.changelog})",
            path=paths.changelog,
            epoch=beyond,
        )
