"""Fold: merges a changelog's records into the node's table when that is due; epochs do not wait for it.

An epoch reads of an input the folded table at a pinned version and the changelog's
tail since then (`infra.epochs.inputs.PinnedInputs.table`).

| the node | its table is folded |
|---|---|
| is read by no other node of the pipeline | in each run that commits an epoch of it, because people read it |
| is read by others | when its tail has more than 10,000 records, and more than a tenth of the table's rows or 100,000 |
| is declared with ``fold="run"`` or ``fold="due"`` | as the first of these, or as the second |
| has no table yet, or one of an earlier incarnation | in the next run |

    table of 1,000,000 rows, folded up to epoch 3      epochs 4 to 12 brought 90,000 records: not due, a lag of 9 epochs
                                                       epoch 13 brings 11,000 more: due, one MERGE of 101,000 records

Held by ``tests/infra/epochs/test_folds.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.changelog_files import count_between
from rivermeet.infra.delta.fold import fold
from rivermeet.infra.delta.fold import refold as replace_table
from rivermeet.infra.delta.io import last_note, protect
from rivermeet.infra.delta.lines import open_table, rows_in
from rivermeet.infra.engine.fit import fit_compilation
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.external_modifications import refuse_modified_node
from rivermeet.pipelines import Node, limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Lag:
    """The lag of a table behind its changelog, in epochs and records."""

    epochs: int
    records: int


@dataclass(frozen=True)
class Fold:
    """The stage of a node; it catches up over any number of epochs."""

    node: Node
    name: ClassVar[str] = "fold"

    def explain(self, context: EpochContext) -> str:
        """Describe what the stage folds, in one line."""
        if not self.node.is_table or context.folds == "never":
            return "nothing: a stream has no table"
        found = last_note(context.paths(self.node).table)
        when = "in each run" if self.in_each_run(context) else "when due"
        upto = f"folded up to epoch {found[1].epoch}" if found else "not yet made"
        return f"{context.paths(self.node).table}, {upto}; {when}"

    def in_each_run(self, context: EpochContext) -> bool:
        """Whether the table is folded in each run that commits an epoch."""
        if self.node.fold is not None:
            return self.node.fold == "run"
        return context.folds == "run" or not is_read(self.node)

    def is_due(self, context: EpochContext, upto: CommitNote) -> bool:
        """Whether the table is to be folded up to the commit with this note."""
        if not self.node.is_table or context.folds == "never":
            return False
        lag = lag_of(context, self.node, upto)
        if lag is None or not lag.epochs:
            return lag is None
        if self.in_each_run(context):
            return True
        if lag.records <= limits.TAIL_RECORDS:
            return False
        table = open_table(context.paths(self.node).table)
        rows = rows_in(table) if table is not None else None
        return rows is None or lag.records > min(limits.DUE_SHARE * rows, limits.BROADCAST_ROWS)

    def run(self, context: EpochContext, upto: CommitNote) -> bool:
        """Fold the table up to the commit with this note, if that is due; return whether it was."""
        if not self.is_due(context, upto):
            return False

        def session() -> SparkSession:
            context.use_sessions(self.node)
            spark = context.fold_session()
            fit_compilation(spark, sum(end + 1 for end in upto.ends.values()))
            return spark

        token = context.lock(self.node).confirm()
        return fold(session, context.paths(self.node), list(self.node.key), upto, token)


def is_read(node: Node) -> bool:
    """Whether another node of the pipeline reads this one."""
    made = [other.operation for other in node.pipeline.nodes if other.operation is not None]
    return any(node is part for operation in made for part in operation.stored_inputs.values())


def lag_of(context: EpochContext, node: Node, upto: CommitNote) -> Lag | None:
    """The lag of the node's table behind a commit; None if there is no table of its incarnation."""
    _, done = last_note(context.paths(node).table) or (None, None)
    if done is None or done.incarnation != upto.incarnation:
        return None
    return Lag(max(upto.epoch - done.epoch, 0), max(count_between(done.ends, upto.ends), 0))


def finish(context: EpochContext, node: Node, committed: CommitNote) -> None:
    """Finish the work of a run that was killed after its commit: protect the changelog."""
    if committed.since > 1:
        # A rebuild's commit lifts the protection of the changelog that it replaces.
        protect(context.session, context.paths(node).changelog)


def refold(context: EpochContext, node: Node) -> bool:
    """Replace a node's table by the fold of its whole changelog; return whether the node has one."""
    paths, lock = context.paths(node), context.lock(node)
    with lock.hold():
        committed = context.read_note(node)
        if committed is None or not node.is_table:
            return False
        refuse_modified_node(paths, False)
        context.use_sessions(node)
        replace_table(context.fold_session, paths, list(node.key), committed)
        return True
