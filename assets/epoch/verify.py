"""Verification: what a node has committed, against what its plans give when they are computed again, and by its rules.

An operation is computed at once from what its epochs took (``assets/epoch/recompute.py``). Spark writes the rows
to files that no log names, and the judge of epochs compares them with the changelog's
(``expectations/rules/verify.py``). Then the node's rules are judged on all that its changelog and table hold: that the
table is the fold is one of them. Of two kinds of nodes only that is done: of a source, as its files may be gone, and of
a join with a view, which has rows and no records.

Held by ``tests/infra/epochs/test_rebuild.py`` and ``tests/assets/quality/test_planted.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import uuid4

from rivermeet.assets.epoch.recompute import Recomputation, can_be_recomputed
from rivermeet.assets.project import Project
from rivermeet.assets.quality.judge import evaluate
from rivermeet.assets.quality.judge_committed import judge_everything
from rivermeet.assets.quality.quality_table import remember
from rivermeet.assets.quality.relations.parts import frame_part, node_part, part_of_staged
from rivermeet.expectations.results import InvariantResult, Judged, Part, Relation
from rivermeet.expectations.rules.verify import VERIFY
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import notes
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.staged import discard, stage
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.pipelines import Node

_FOLD = ("fold_equals_table", "unique_keys")


@dataclass(frozen=True)
class Verified:
    """What was compared of a node.

    Attributes
    ----------
    rows
        Rows of the changelog; None where it was not computed again.
    compared
        What the comparison found; None where there was none.
    standing
        What the node's rules found in all that is committed.
    known
        Rules that a person has decided to leave broken.
    """

    node: Node
    epoch: int
    rows: int | None
    compared: InvariantResult | None
    standing: Sequence[InvariantResult]
    known: Sequence[str] = ()

    @property
    def differing(self) -> int:
        """Rows that are missing, too many or other."""
        return 0 if self.compared is None else self.compared.violations or 0

    @property
    def first(self) -> Sequence[Mapping[str, str]]:
        """The first twenty: partition, offset, ``committed`` and ``recomputed`` as JSON, ``null`` for no row."""
        return [] if self.compared is None else self.compared.sample

    @property
    def table_differs(self) -> int | None:
        """Keys by which the table is not the fold of the changelog; None of a stream, or where nobody could say."""
        found = [one.violations for one in self.standing if one.invariant.id in _FOLD]
        return sum(n for n in found if n is not None) if found and None not in found else None

    @property
    def broken(self) -> Sequence[InvariantResult]:
        """What does not pass, the comparison first."""
        return [one for one in (self.compared, *self.standing) if one is not None and not one.passed]

    @property
    def holds(self) -> bool:
        """Whether all is equal, and nothing is broken that a run's checks would not pass either."""
        return not any(
            one.state == "not evaluated" or one.invariant.severity == "critical"
            for one in self.broken
            if one.invariant.id not in self.known
        )


def verify(context: EpochContext, node: Node) -> Verified | None:
    """Compare a node with its recomputation, and judge all that it has; None where nothing is committed yet.

    No table of the node is written. Cost: one epoch over all that the node has consumed, and reading it.
    """
    path = context.paths(node).changelog
    table = open_table(path)
    if table is None:
        return None
    # The newest version, even if it is not that of our last commit.
    version = table.version()
    note = next(note for at, note in notes(path) if at <= version)
    rows, compared = None, None
    if can_be_recomputed(node):
        rows = sum(end + 1 for end in note.ends.values())
        with _recompute(context, node, note) as again:
            compared = _compare(context, node, version, rows, again)
    known = note.decided.invariants if note.decided is not None else ()
    return Verified(node, note.epoch, rows, compared, judge_everything(context, node), known)


def record(project: Project, found: Verified, seconds: float) -> None:
    """Keep what was found in the quality table, where the report finds it; what was compared as one rule."""
    results = list(found.standing)
    if found.compared is not None:
        # Its query reads rows that are nowhere any more.
        results.append(replace(found.compared, sql="", seconds=seconds))
    if results:
        name = f"verify-{uuid4().hex}"
        remember(project.quality, found.node, found.epoch, results, name, "verify")


@contextmanager
def _recompute(context: EpochContext, node: Node, note: CommitNote) -> Iterator[Part]:
    """The rows of all epochs, computed once more into files that go with the block."""
    paths = context.paths(node)
    with SharedFrames(f"verify_{paths.pipeline}_{paths.node}") as shared:
        rows = Recomputation(context, node, note, context.session()).rows(shared)
        staged = stage(rows, paths.changelog, "verify", own_schema=True)
        if staged is None:
            yield frame_part(paths, "changelog", note.epoch, rows)
            return
    try:
        yield part_of_staged(paths, staged)
    finally:
        discard(staged)


def _compare(context: EpochContext, node: Node, version: int, rows: int, again: Part) -> InvariantResult:
    committed = node_part(context.paths(node), "changelog", version)
    relations = {
        "changelog": lambda: Relation("SELECT * FROM {rows}", {"rows": committed}),
        "recomputed": lambda: Relation("SELECT * FROM {rows}", {"rows": again}),
    }
    return evaluate(context, node, [VERIFY], Judged(relations, {"changelog": rows}, "whole"))[0]
