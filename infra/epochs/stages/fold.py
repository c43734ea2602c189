"""Fold: the changelog's records up to a commit, MERGEd into the node's table; nothing where the node is a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from infra.delta.fold import fold
from infra.delta.fold import fold_anew as replace_table
from infra.delta.io import last_note, protect
from infra.epochs.context import EpochContext
from infra.epochs.external_modifications import refuse_modified_node
from infra.epochs.plan import CommitNote
from pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Fold:
    """The stage of a node; it catches up over any number of epochs."""

    node: Node
    name: ClassVar[str] = "fold"

    def explain(self, context: EpochContext) -> str:
        """What the stage folds, in one line."""
        if not self.node.is_table or not context.folds:
            return "nothing: a stream has no table"
        found = last_note(context.paths(self.node).table)
        return (
            f"{context.paths(self.node).table}, {f'folded up to epoch {found[1].epoch}' if found else 'not yet made'}"
        )

    def is_due(self, context: EpochContext, upto: CommitNote) -> bool:
        """Whether the table is behind the commit with this note."""
        if not self.node.is_table or not context.folds:
            return False
        found = last_note(context.paths(self.node).table)
        return found is None or (found[1].incarnation, found[1].epoch) < (upto.incarnation, upto.epoch)

    def run(self, context: EpochContext, upto: CommitNote) -> bool:
        """Bring the table up to the commit with this note; whether it was behind."""
        if not self.node.is_table or not context.folds:
            return False

        def session() -> SparkSession:
            context.use_sessions(self.node)
            return context.fold_session()

        return fold(session, context.paths(self.node), list(self.node.key), upto)


def finish(context: EpochContext, node: Node, committed: CommitNote) -> None:
    """Do what a run that was killed after its commit left undone: protect the changelog, fold the table."""
    if committed.since > 1:
        # A rebuild's commit lifts the protection of the changelog that it replaces.
        protect(context.session, context.paths(node).changelog)
    Fold(node).run(context, committed)


def fold_anew(context: EpochContext, node: Node) -> bool:
    """Replace a node's table by the fold of its whole changelog; whether the node has one."""
    paths, lock = context.paths(node), context.lock(node)
    with lock.held():
        found = last_note(paths.changelog)
        if found is None or not node.is_table:
            return False
        refuse_modified_node(paths, False)
        context.use_sessions(node)
        replace_table(context.fold_session, paths, found[1])
        return True
