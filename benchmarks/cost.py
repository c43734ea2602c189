"""What an epoch of the join ``fk`` costs: a model of five coefficients, held against sizes that it has not seen.

    python -m benchmarks fk --no-peers --left 3000000 --right 300000     (and other sizes)
    python -m benchmarks.cost --hold 3000000 --at 10000000000:1000000

| what | seconds, from files to judged changelogs of all nodes |
|---|---|
| an epoch of ``changes`` on a table of ``base`` rows | epoch + change x changes + base x base |
| the first ``records``, loaded in ``pieces`` | piece x pieces + record x records |

Of each size the newest stored run counts, and of its epochs the middle one. The coefficients are fitted to the ratio of
predicted and measured seconds, so that small sizes count as much as large ones. Sizes named by ``--hold`` are left out
of the fit and predicted. Runs whose changes are ``--recent`` are none of it: their base is hardly looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import click
import numpy as np

from benchmarks.stored import Line, backlog_and_changes, read_lines, results_file, size_of
from rivermeet.assets.cli.show.rows import table
from rivermeet.infra.settings import Settings


@dataclass(frozen=True)
class Run:
    """One size that was measured.

    Attributes
    ----------
    base, changes
        Orders at first, and changes in each later epoch.
    records, pieces
        All that was loaded at first, and in how many epochs.
    backlog, epoch
        Seconds of all that was loaded, and of the middle epoch of changes.
    """

    base: int
    changes: int
    records: int
    pieces: int
    backlog: float
    epoch: float

    @classmethod
    def of(cls, line: Line) -> Run:
        """What a stored line has measured."""
        size, (first, later) = line["size"], backlog_and_changes(line)
        return cls(
            base=size["left"],
            changes=size["changes"],
            records=size["left"] + size["right"],
            pieces=len(first),
            backlog=sum(one["committed"] for one in first),
            epoch=median(one["committed"] for one in later),
        )


def runs(lines: Iterable[Line]) -> Sequence[Run]:
    """The newest run of each size."""
    found: dict[Any, Line] = {}
    for line in lines:
        if line["peer"] != "Rivermeet" or line["workload"] != "fk" or line.get("cache"):
            continue
        size = size_of(line)
        if size["recent"] is None and size["epochs"] and len(line["epochs"]) == size["pieces"] + size["epochs"]:
            found[size["left"], size["right"], size["changes"], size["pieces"]] = line
    return [Run.of(found[size]) for size in sorted(found)]


@dataclass(frozen=True)
class Model:
    """Coefficients, in seconds; of changes, rows and records each."""

    epoch: float
    change: float
    base: float
    piece: float
    record: float

    @classmethod
    def fit(cls, seen: Sequence[Run]) -> Model:
        """The model that the ratios of what was measured and what it predicts are nearest to one for."""
        epochs = _nearest([(1, run.changes, run.base) for run in seen], [run.epoch for run in seen])
        return cls(*epochs, *_nearest([(run.pieces, run.records) for run in seen], [run.backlog for run in seen]))

    def epoch_of(self, changes: int, base: int) -> float:
        """Seconds of an epoch."""
        return self.epoch + self.change * changes + self.base * base

    def backlog_of(self, records: int, pieces: int) -> float:
        """Seconds of all that is loaded at first."""
        return self.piece * pieces + self.record * records


def _nearest(factors: Sequence[Sequence[int]], seconds: Sequence[float]) -> Sequence[float]:
    matrix = np.asarray(factors, float) / np.asarray(seconds)[:, None]
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        raise click.ClickException(
            f"{len(seconds)} sizes do not fix {matrix.shape[1]} coefficients: run more, with other --left and --changes"
        )
    # Numbers of a million rows and of one epoch: each column is brought to one size before it is solved.
    scale = np.linalg.norm(matrix, axis=0)
    found, *_ = np.linalg.lstsq(matrix / scale, np.ones(len(seconds)), rcond=None)
    return [float(one) for one in found / scale]


def compare(model: Model, measured: Iterable[Run], held: Sequence[int]) -> str:
    """A table: each size, its seconds, those that the model gives, and their ratio."""
    rows: list[list[str]] = []
    for run in measured:
        epoch, backlog = model.epoch_of(run.changes, run.base), model.backlog_of(run.records, run.pieces)
        numbers = [run.epoch, epoch, epoch / run.epoch, run.backlog, backlog, backlog / run.backlog]
        size = [f"{run.base:,}", f"{run.changes:,}", f"{run.pieces}", "held back" if run.base in held else "fitted"]
        rows.append([*size, *(f"{number:.2f}" for number in numbers)])
    return table(["orders", "changes", "pieces", "", "an epoch", "model", "ratio", "backlog", "model", "ratio"], rows)


@click.command()
@click.option("--hold", multiple=True, type=int, help="Orders of sizes that are left out of the fit.")
@click.option("--at", multiple=True, help="ORDERS:CHANGES to extrapolate to.")
def main(hold: tuple[int, ...], at: tuple[str, ...]) -> None:
    """Fit the model to the stored runs, and print how near it comes."""
    measured = runs(read_lines(results_file(Settings.from_env())))
    model = Model.fit([run for run in measured if run.base not in hold])
    click.echo(
        f"an epoch: {model.epoch:.2f} s, {model.change * 1e4:.2f} s for 10,000 changes, "
        f"{model.base * 1e6:.2f} s for a million orders\n"
        f"a backlog: {model.piece:.2f} s for each piece, {model.record * 1e6:.2f} s for a million records\n"
    )
    click.echo(compare(model, measured, hold))
    for size in at:
        base, changes = (int(number) for number in size.split(":"))
        click.echo(f"an estimate, {base:,} orders and {changes:,} changes: {model.epoch_of(changes, base):,.0f} s")


if __name__ == "__main__":
    main()
