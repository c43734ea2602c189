"""A node's epoch under a project, with a line of progress about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rivermeet.assets.epoch.operator_step import step_of
from rivermeet.assets.epoch.run import Outcome, run_epoch
from rivermeet.assets.project import Project
from rivermeet.assets.quality.judge_committed import FoldOutcome, awaits_fold, fold_node
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.epochs.external_modifications import ExternalModificationError, refuse_modified_node
from rivermeet.infra.epochs.stages.plan import Rebuild
from rivermeet.pipelines import Node
from rivermeet.pipelines.plural import pluralize


def materialise(project: Project, node: Node, run_id: str, rebuild: Rebuild | None = None) -> Outcome:
    """Run one epoch of a node, as `run_epoch`, then the fold of its table, if due, and say what came of them."""
    outcome = materialise_epoch(project, node, run_id, rebuild)
    return replace(outcome, folded=materialise_fold(project, node, run_id))


def materialise_epoch(
    project: Project,
    node: Node,
    run_id: str,
    rebuild: Rebuild | None = None,
    committed: Callable[[], None] = lambda: None,
) -> Outcome:
    """The epoch alone; ``committed`` as for `run_epoch`."""
    outcome = run_epoch(project.context(node.pipeline), step_of(project, node), run_id, rebuild, committed)
    if outcome.missed is not None:
        missed = outcome.missed
        project.say(
            f"  {node.name:<24} epoch {missed.epoch}: its run ended without all its checks; {_holds(missed.verdicts)}"
        )
    reads = outcome.result.plan.reads if outcome.result is not None else None
    for line in reads.warnings(hashed=bool(node.partitions)) if reads is not None else ():
        project.say(f"  {node.name:<24} WARNING {line}")
    project.say(f"  {node.name:<24} nothing new" if outcome.result is None else _line(node, outcome))
    return outcome


def must_fold(project: Project, node: Node) -> bool:
    """Whether the node has something to fold, or a fold to judge."""
    committed = last_note(project.paths(node).changelog)
    return committed is not None and awaits_fold(project.context(node.pipeline), node, committed[1])


def materialise_fold(project: Project, node: Node, run_id: str) -> FoldOutcome | None:
    """The fold alone; None where none was due."""
    folded = fold_node(project.context(node.pipeline), node, run_id)
    if folded is not None:
        seconds = folded.seconds + folded.seconds_checks
        about = f"table at epoch {folded.epoch}; {_holds(folded.verdicts)}; {seconds:.1f} s"
        project.say(f"  {node.name:<24} {about}")
    return folded


def must_run(project: Project, node: Node) -> bool:
    """Whether the node has news, or was modified externally, which its own step then refuses."""
    try:
        refuse_modified_node(project.paths(node), node.is_table)
        return has_news(project, node)
    except ExternalModificationError:
        return True


def has_news(project: Project, node: Node) -> bool:
    """Whether the node, or anything that it is made of, has something unread; reads metadata only."""
    operation = node.operation
    if operation is not None and any(has_news(project, part) for part in operation.inputs.values()):
        return True
    if not node.is_stored:
        return False
    found = last_note(project.paths(node).changelog)
    epoch, note = (found[1].epoch + 1, found[1]) if found else (1, None)
    return step_of(project, node).plan(note, found[0] if found else None, epoch) is not None


def _line(node: Node, outcome: Outcome) -> str:
    result, judgement = outcome.result, outcome.judgement
    assert result is not None and judgement is not None
    parts = {"tombstones": result.tombstones, **{k.replace("_", " "): n for k, n in result.sides.items()}}
    extra = "".join(f", {n:,} {what}" for what, n in parts.items() if n)
    again = ", recomputed" if result.plan.replaces else ""
    if result.note.decided is not None:
        again += f", {result.note.decided.summary}"
    seconds = sum(result.seconds.values()) + judgement.seconds
    return (
        f"  {node.name:<24} epoch {result.plan.epoch}: {pluralize(result.rows, 'row')}{extra}{again}; "
        f"{_holds(judgement.verdicts)}; {seconds:.1f} s"
    )


def _holds(verdicts: Sequence[InvariantResult]) -> str:
    checks = f"{sum(v.passed for v in verdicts)} of {pluralize(len(verdicts), 'check')}"
    return f"{checks} hold{'s' if len(verdicts) == 1 else ''}"
