"""What changed nodes and those below them would have, computed in a scratch place from the inputs that stand.

A node that is declared otherwise is computed at once from all that its epochs took, in the order in which they took
it (``assets/epoch/recompute.py``), so that nothing differs but by the declaration. Nodes below it are one epoch of what
it would have. The tables of each node that stays as it is are read where they are, and not written. The scratch place
is a temporary folder, or lies below ``_diff`` beside tables at a URL, which an engine elsewhere reaches, too. Held by
``tests/assets/diff/test_diff.py``.

A share of the keys is those of some partitions, which are whole. A key's partition is a hash of it, equal on both sides
of a co-partitioned join, and a partition has its own stream time, order and caches: whatever is computed of one alone
is what a run of all gives. Of some of a partition's keys that would not hold, because the records of the others move
its stream time.

    share 1/4 of 8 partitions     those whose number modulo 4 is below 1: 0 and 4
    share 1/4 of 2 partitions     0, which is half of the keys
    share 1/4 of 1 partition      all keys

What is looked up from anywhere, such as the right table of a foreign-key join, is read whole. A node is computed whole
where its own rows come from anywhere, as a select-key's do, or where one below reads it whole. Held by
``tests/assets/diff/test_share.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from uuid import uuid4

from rivermeet.assets.epoch.operator_step import OperatorStep
from rivermeet.assets.epoch.recompute import Recomputation, can_be_recomputed
from rivermeet.assets.epoch.run import run_epoch
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.location import files_below, is_local
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.declaration import changes_of
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.pipelines import Node, Pipeline
from rivermeet.pipelines.errors import RivermeetError
from rivermeet.pipelines.plural import pluralize

SCRATCH = "_diff"
"""Folder of scratch places among tables at a URL; no pipeline can be called so."""


class DiffError(RivermeetError):
    """What would change cannot be computed."""

    remedy = "Name another node, or run what the message names first."


@dataclass(frozen=True)
class Sample:
    """The partitions of a node that are computed and compared, of so many."""

    partitions: tuple[int, ...]
    of: int

    def __str__(self) -> str:
        if len(self.partitions) == self.of:
            return "all keys"
        return f"keys of {len(self.partitions)} of {pluralize(self.of, 'partition')}"


def find_sampled(affected: Sequence[Node]) -> list[Node]:
    """Those of the affected nodes, inputs first, that can be computed of some partitions alone."""
    found: dict[str, Node] = {}
    for node in reversed(affected):
        operation = node.operation
        assert operation is not None, "a source is not computed"
        read_whole = any(
            other.name not in found or side not in other.operation.by_partition
            for other in affected
            if other.operation is not None
            for side, part in other.operation.stored_inputs.items()
            if part.name == node.name
        )
        if operation.by_partition and not read_whole:
            found[node.name] = node
    return [node for node in affected if node.name in found]


def samples(context: EpochContext, affected: Sequence[Node], share: Fraction) -> Mapping[str, Sample]:
    """Names of nodes that are computed of some partitions alone, with these."""
    found: dict[str, Sample] = {}
    for node in find_sampled(affected):
        assert node.operation is not None
        known = {0}
        for side in node.operation.by_partition:
            part = node.operation.inputs[side]
            if part.name in found:
                known.add(found[part.name].of - 1)
            elif (committed := last_note(context.paths(part).changelog)) is not None:
                known.update(committed[1].ends)
        of = max(known) + 1
        chosen = (p for p in range(of) if p % share.denominator < share.numerator)
        found[node.name] = Sample(tuple(chosen), of)
    return found


def find_changed(context: EpochContext, pipeline: Pipeline) -> list[Node]:
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


@contextmanager
def compute_changed(
    context: EpochContext, pipeline: Pipeline, changed: Sequence[Node], samples: Mapping[str, Sample] | None = None
) -> Iterator[EpochContext]:
    """The context of a scratch place where the changed nodes and those below are computed.

    Parameters
    ----------
    samples
        Names of nodes to the partitions that are computed of them; all of those that are not named.

    Raises
    ------
    DiffError
        If a changed node has not read all of its inputs.
    """
    affected = pipeline.downstream(changed)
    elsewhere = {node.name: context.tables for node in pipeline.stored if node not in affected}
    with tempfile.TemporaryDirectory(prefix="rivermeet-diff-") as folder, _scratch_tables(context, folder) as tables:
        home = Path(folder)
        (home / "locks").mkdir()
        log = EpochLog(str(home / "epochs"), str(home / "locks" / "epochs.lock"))
        scratch = replace(context, tables=tables, log=log, locks=home / "locks", folds="never", quality=None)
        for node in affected:
            assert node.operation is not None
            step = OperatorStep(node, tables, session=scratch.session, elsewhere=elsewhere)
            if (sample := (samples or {}).get(node.name)) is not None:
                step = replace(step, among=dict.fromkeys(node.operation.by_partition, sample.partitions))
            run_epoch(scratch, _in_order(context, step) if node in changed else step)
        yield scratch


@contextmanager
def _scratch_tables(context: EpochContext, folder: str) -> Iterator[str]:
    if is_local(context.tables):
        yield f"{folder}/tables"
        return
    name = f"{SCRATCH}/{uuid4().hex}"
    try:
        yield f"{context.tables.rstrip('/')}/{name}"
    finally:
        files_below(context.tables).delete_dir(name)


def _in_order(context: EpochContext, step: OperatorStep) -> OperatorStep:
    """The step over what the node's epochs took, in their order."""
    node, operation = step.node, step.operation
    unchanged = all(one.name in step.elsewhere for one in operation.inputs.values())
    if not can_be_recomputed(node) or not unchanged:
        return step
    found = last_note(context.paths(node).changelog)
    assert found is not None, "a changed node has rows"
    note = found[1]
    for side, one in operation.inputs.items():
        committed = last_note(context.paths(one).changelog)
        if committed is not None and dict(committed[1].ends) != dict(note.consumed.get(side, {})):
            raise DiffError(
                f"'{node.pipeline.name}.{node.name}' has not read all of '{one.name}': "
                f"run it first (`rivermeet run {node.pipeline.name}`), with the declaration that it had"
            )
    again = Recomputation(context, node, note, context.session())
    return replace(step, node=replace(node, origin=operation.over_all_epochs()), ordered=again.order_records)
