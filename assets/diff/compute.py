"""What changed nodes and those below them would have, computed in a scratch place from the inputs that stand.

A node that is declared otherwise is computed at once from all that its epochs took, in the order in which they took
it (``assets/epoch/recompute.py``), so that nothing differs but by the declaration. Nodes below it are one epoch of what
it would have. The scratch place has a link to the tables of each node that stays as it is; nothing there is written.
Held by ``tests/assets/diff/test_diff.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rivermeet.assets.epoch.operator_step import OperatorStep
from rivermeet.assets.epoch.recompute import Recomputation, can_be_recomputed
from rivermeet.assets.epoch.run import run_epoch
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.location import is_local
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.declaration import changes_of
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.pipelines import Node, Pipeline
from rivermeet.pipelines.errors import RivermeetError


class DiffError(RivermeetError):
    """What would change cannot be computed."""

    remedy = "Name another node, or run what the message names first."


def changed_nodes(context: EpochContext, pipeline: Pipeline) -> list[Node]:
    """Computed nodes that are declared otherwise than when their rows were made; those without rows are none.

    Raises
    ------
    DiffError
        If no computed node has rows.
    """
    found: list[Node] = []
    notes = {node: last_note(context.paths(node).changelog) for node in pipeline.stored if node.operation is not None}
    if not any(notes.values()):
        raise DiffError(
            f"no computed node of '{pipeline.name}' has rows to compare with: run `rivermeet run {pipeline.name}` first"
        )
    for node, note in notes.items():
        if note is None:
            continue
        change = changes_of(node, note[1].declared)
        if change.flowing or change.refused:
            found.append(node)
    return found


def affected_nodes(pipeline: Pipeline, changed: Sequence[Node]) -> list[Node]:
    """Those nodes and all below them, inputs first."""
    names = {node.name for node in changed}
    for node in pipeline.nodes:
        if node.operation is not None and any(one.name in names for one in node.operation.inputs.values()):
            names.add(node.name)
    return [node for node in pipeline.stored if node.name in names]


@contextmanager
def computed(context: EpochContext, pipeline: Pipeline, changed: Sequence[Node]) -> Iterator[EpochContext]:
    """The context of a scratch place where the changed nodes and those below are computed.

    Raises
    ------
    DiffError
        If the tables are behind a URL, or a changed node has not read all of its inputs.
    """
    if not is_local(context.tables):
        raise DiffError(
            f"the tables lie at {context.tables}, and diff links to local ones; run it where they are local"
        )
    affected = affected_nodes(pipeline, changed)
    with tempfile.TemporaryDirectory(prefix="rivermeet-diff-") as folder:
        home = Path(folder)
        tables = home / "tables" / pipeline.name
        tables.mkdir(parents=True)
        (home / "locks").mkdir()
        for node in pipeline.stored:
            real = Path(context.tables) / pipeline.name / node.name
            if node not in affected and real.is_dir():
                (tables / node.name).symlink_to(real.resolve())
        log = EpochLog(str(home / "epochs"), str(home / "locks" / "epochs.lock"))
        scratch = replace(
            context, tables=str(home / "tables"), log=log, locks=home / "locks", folds="never", quality=None
        )
        for node in affected:
            run_epoch(scratch, _step(context, scratch, node, node in changed))
        yield scratch


def _step(context: EpochContext, scratch: EpochContext, node: Node, is_changed: bool) -> OperatorStep:
    step = OperatorStep(node, scratch.tables, session=scratch.session)
    if not is_changed or not can_be_recomputed(node):
        return step
    assert node.operation is not None
    found = last_note(context.paths(node).changelog)
    assert found is not None, "a changed node has rows"
    note = found[1]
    if not all(_is_link(scratch, one) for one in node.operation.inputs.values()):
        return step  # its inputs have changed, too
    for side, one in node.operation.inputs.items():
        committed = last_note(context.paths(one).changelog)
        if committed is not None and dict(committed[1].ends) != dict(note.consumed.get(side, {})):
            raise DiffError(
                f"'{node.pipeline.name}.{node.name}' has not read all of '{one.name}': "
                f"run it first (`rivermeet run {node.pipeline.name}`), with the declaration that it had"
            )
    again = Recomputation(context, node, note, context.session())
    other = replace(node, origin=node.operation.over_all_epochs())
    return replace(step, node=other, ordered=again.ordered)


def _is_link(scratch: EpochContext, node: Node) -> bool:
    return Path(scratch.paths(node).changelog).parent.is_symlink()
