"""The oldest version of a table that may still be needed: maintenance keeps it and all newer ones readable.

| reader | needs |
|---|---|
| a plan that is logged and not committed | the version that it pins |
| the next plan of a join, however far behind | the newest version that is not past what the join has consumed |
| the next run of the node itself | the commit with the newest note |
| a running query | one of the newest versions; a number of them is kept |

    table: versions 3 (up to offset 10), 4 (20), 5 (30), 6 (OPTIMIZE); a join has consumed up to 20
    the join's next plan pins 4 or a newer one       oldest needed: 4
    a plan of it from before version 4 is open       oldest needed: 3
    the join has never run                           oldest needed: 0, because its plan may pin any

Why: ``docs/decisions/one-commit-is-the-epoch.md``. Held by ``tests/infra/delta/test_maintenance.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rivermeet.infra.commit_note import CommitNote, within
from rivermeet.infra.delta.io import last_note, notes
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.pipelines import Node

Notes = Sequence[tuple[int, CommitNote]]
EVERYTHING = 0


def oldest_needed(runner: EpochContext, node: Node, path: str, newest: int) -> int:
    """The oldest needed version of one of the node's tables; 0 if it is unknown.

    Parameters
    ----------
    path
        Location of the table; plans pin changelogs and folded tables only.
    newest
        The number of newest versions that running queries may need.
    """
    table, paths = open_table(path), runner.paths(node)
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
    """The versions that the reader's logged plans and its next plan pin."""
    # The position is read first: a plan that is made later pins nothing older.
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
