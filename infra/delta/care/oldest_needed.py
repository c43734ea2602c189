"""The oldest version of a table that anyone may still need: maintenance leaves it readable, and all newer ones.

| who | needs |
|---|---|
| a plan that is logged and not committed | the version that it pins |
| the next plan of a join, however far behind | the newest version that is not past what the join has consumed |
| the next run of the node itself | the commit with the newest note |
| a query that runs now | one of the newest versions, as many as are kept for that |

    table: versions 3 (up to offset 10), 4 (20), 5 (30), 6 (OPTIMIZE); a join has consumed up to 20
    the join's next plan pins 4 or a newer one       oldest needed: 4
    a plan of it from before version 4 is open       oldest needed: 3
    the join has never run                           oldest needed: 0, for its plan may pin any

Why: ``docs/decisions/one-commit-is-the-epoch.md``. Held by ``tests/infra/delta/test_maintenance.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rivermeet.infra.delta.io import last_note, notes
from rivermeet.infra.delta.lines import opened
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import CommitNote, within
from rivermeet.pipelines import Node

Notes = Sequence[tuple[int, CommitNote]]
EVERYTHING = 0


def oldest_needed(runner: EpochContext, node: Node, path: str, newest: int) -> int:
    """The oldest needed version of one of the node's tables; 0 where in doubt.

    Parameters
    ----------
    path
        Location of the table; plans pin changelogs and folded tables only.
    newest
        So many of the newest versions are needed by whoever reads just now.
    """
    table, paths = opened(path), runner.paths(node)
    if table is None:
        return EVERYTHING
    kept = [table.version() - newest + 1]
    if path in (paths.changelog, paths.table):
        ours = list(notes(path))
        if not ours:
            return EVERYTHING
        kept.append(ours[0][0])
        for reader, side in _readers(node):
            kept += _pinned(runner, reader, side, ours, path == paths.table)
    return max(EVERYTHING, min(kept))


def _pinned(runner: EpochContext, reader: Node, side: str, ours: Notes, folded: bool) -> Iterator[int]:
    """What the reader's plans pin, those that are logged and the next one."""
    # The position first: a plan that is made after it pins nothing older than what the position says.
    found = last_note(runner.paths(reader).changelog)
    committed = found[1].epoch if found else 0
    for plan in runner.log.open_plans(reader.name, committed).values():
        part = plan.inputs.get(side)
        pin = part and (part.table_version if folded else part.version)
        if pin is not None:
            yield pin
    incarnation = ours[0][1].incarnation
    if found is None or found[1].incarnations.get(side, 1) != incarnation:
        yield EVERYTHING
        return
    consumed = found[1].consumed.get(side, {})
    yield next((v for v, note in ours if note.incarnation == incarnation and within(note.ends, consumed)), EVERYTHING)


def _readers(node: Node) -> Iterator[tuple[Node, str]]:
    """(node, side) of every operation that reads the node."""
    for reader in node.pipeline.stored:
        if reader.operation is not None:
            for side, part in reader.operation.stored_inputs.items():
                if part is node:
                    yield reader, side
