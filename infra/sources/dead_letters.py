"""Open dead letters, and how they are parsed again after the declaration or the file was corrected.

The dead-letter table keeps every letter, identified by (epoch, file, line, position). A letter is open until a
committed epoch has retried it:

    epoch 1   1.csv, position 1   "b,x,20"   column 'n': 'x' is not INT
    epoch 1   2.csv, position 0   NULL       the file has no column 'n'       (0: the file itself)
    epoch 4   retries epoch 1: "b,x,20" is a record now; 2.csv is read again, and its second row is dead
    epoch 4   2.csv, position 1   "d,y,40"   column 'n': 'y' is not INT       the only open one

- The letters of rows belong to their epoch: they are closed when a committed plan retries it. A row that is still dead
  is written again with the retrying epoch and its current reason, so each counts once.
- The letter of a file is also closed when a later plan has the file: it was replaced, and is read like a new one.
- A row that has become a record comes after all existing records of the changelog, like a late delivery: a join may
  find its window closed.

Held by ``tests/infra/sources/test_dead_letters.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.plan import EpochPlan


@dataclass(frozen=True)
class OpenLetters:
    """Open dead letters: their epochs, files that are dead as a whole, and the total number of letters."""

    epochs: tuple[int, ...] = ()
    files: frozenset[str] = frozenset()
    count: int = 0


def open_letters(path: str, plans: Sequence[EpochPlan]) -> OpenLetters:
    """The open letters at ``path``, of the committed plans of the source's incarnation; read without Spark."""
    table = open_table(path)
    if table is None:
        return OpenLetters()
    committed = {plan.epoch for plan in plans}
    retried = {epoch for plan in plans for epoch in plan.retries}
    last_read = {path: plan.epoch for plan in plans if plan.reads for path in plan.reads.paths}
    dataset = table.to_pyarrow_dataset()
    if "position" not in dataset.schema.names:
        return OpenLetters()
    # Letters of releases before 0.2 have no position, and cannot be parsed again.
    of_open = pc.field("epoch").isin(sorted(committed - retried)) & pc.field("position").is_valid()
    lines = dataset.to_table(["epoch", "file", "position"], filter=of_open).to_pylist()
    letters = [
        line for line in lines if line["position"] > 0 or last_read.get(line["file"], line["epoch"]) <= line["epoch"]
    ]
    return OpenLetters(
        tuple(sorted({line["epoch"] for line in letters})),
        frozenset(line["file"] for line in letters if line["position"] == 0),
        len(letters),
    )
