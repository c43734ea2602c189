"""A run that finds nothing new: decided before Dagster is started, so that a tick of a schedule costs about a second.

| every node of the run | the run |
|---|---|
| has an epoch, nothing new, no open plan, a folded table, verdicts; topics have it | is idle: what stands is said |
| any other | is made: it reads, refuses, folds or judges what there is |

An idle run leaves no trace: Dagster's page goes on showing the run before. Held by ``tests/assets/cli/test_idle.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.assets.epoch.operator_step import step_of
from rivermeet.assets.project import Project
from rivermeet.assets.quality.judge_committed import awaits_fold
from rivermeet.assets.quality.quality_table import State, last_states
from rivermeet.assets.sinks.delivery import sink_lag
from rivermeet.expectations.invariants import invariants_of
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import is_protected, last_note
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.stages.plan import Plan
from rivermeet.pipelines import Node, Pipeline
from rivermeet.pipelines.errors import RivermeetError


def is_idle(project: Project, nodes: Sequence[Node]) -> bool:
    """Whether a run of these nodes has nothing to do; asks metadata only."""
    return all(_rests(project, node) for node in nodes) and not any(
        sink_lag(project, sink).epochs for node in nodes for sink in node.pipeline.sinks_of(node)
    )


def idle_run(project: Project, pipeline: Pipeline, selected: Sequence[str] = ()) -> bool | None:
    """Say what stands where nothing is new; whether it is green, or None where a run has something to do."""
    nodes = [node for node in pipeline.stored if not selected or node.name in selected]
    if not is_idle(project, nodes):
        return None
    for node in nodes:
        project.say(f"  {node.name:<24} nothing new")
    failing = [node for node in nodes if _say_failures(project, node)]
    return not failing


def _rests(project: Project, node: Node) -> bool:
    context, found = project.context(node.pipeline), last_note(project.paths(node).changelog)
    if found is None:
        return False
    try:
        planned = Plan(step_of(project, node)).look(context)
    except RivermeetError:
        # Its own step refuses, with what heals it.
        return False
    return planned.plan is None and not planned.aside and _is_finished(context, node, found[1])


def _is_finished(context: EpochContext, node: Node, note: CommitNote) -> bool:
    """Whether the run of the node's last epoch came to its end."""
    if context.quality is None or not context.log.lines(node.name, "judged", note.epoch - 1):
        return False
    if not last_states(context.quality, node, note.epoch):
        return False
    protected = note.since == 1 or is_protected(context.paths(node).changelog)
    return protected and not awaits_fold(context, node, note)


def _say_failures(project: Project, node: Node) -> bool:
    """Say what does not hold of a node; whether a run fails by it, as no person has released or dropped it."""
    note = last_note(project.paths(node).changelog)
    assert note is not None
    epoch, decided, fails = note[1].epoch, note[1].decided, False
    states = last_states(project.quality, node, epoch)
    for rule in invariants_of(node):
        found = states.get(rule.id, State("not evaluated", None, None, epoch))
        if found.state == "passed":
            continue
        asset = f"{node.name}_{'table' if rule.needs_table else 'changelog'}"
        project.say(
            f"  {found.state.upper()} {node.pipeline.name}/{asset}: {rule.id}, as judged with epoch {found.epoch}; "
            f"nothing is new since. {rule.sentence}"
        )
        accepted = decided is not None and rule.id in decided.invariants
        fails |= not accepted and (found.state == "not evaluated" or rule.severity == "critical")
    return fails
