"""The cost model finds the coefficients that runs were made of, and is held against sizes that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import pytest

from benchmarks.cost import Model, Run, compare, runs

TRUE = Model(epoch=4.0, change=2e-4, base=7e-7, piece=3.0, record=2.6e-5)
SIZES = [(10**6, 1_000, 1), (10**6, 10_000, 1), (10**6, 100_000, 1), (10**7, 10_000, 1), (3 * 10**7, 10_000, 3)]


def line(base: int, changes: int, pieces: int, slower: float = 1.0, at: int = 1) -> dict[str, Any]:
    """A stored run, as the true model has it."""
    loaded = TRUE.backlog_of(base + base // 10, pieces) / pieces
    later = TRUE.epoch_of(changes, base) * slower
    epochs = [*([loaded] * pieces), later, later + 50, later - 0.01]
    return {
        "peer": "Rivermeet",
        "workload": "fk",
        "at": at,
        "size": {"left": base, "right": base // 10, "changes": changes, "epochs": 3, "pieces": pieces},
        "epochs": [{"committed": seconds} for seconds in epochs],
    }


def found(lines: Sequence[dict[str, Any]]) -> Model:
    return Model.fit(runs(lines))


def test_it_finds_what_the_runs_were_made_of() -> None:
    model = found([line(*size) for size in SIZES])
    for name, value in vars(TRUE).items():
        assert getattr(model, name) == pytest.approx(value, rel=1e-6), name


def test_sizes_that_are_held_back_are_predicted() -> None:
    measured = runs([line(*size) for size in SIZES])
    model = Model.fit([run for run in measured if run.base != 10**7])
    held, fitted = (compare(model, [run], [10**7]) for run in (measured[3], measured[0]))
    assert "held back" in held and held.splitlines()[-1].split()[-1] == "1.00"
    assert "held back" not in fitted and "fitted" in fitted


def test_a_run_that_took_longer_shows_in_its_ratio() -> None:
    measured = runs([line(*size) for size in SIZES])
    slow = Run.of(line(10**7, 10_000, 1, slower=2.0))
    assert compare(Model.fit(measured), [slow], []).splitlines()[-1].split()[-4] == "0.50"


def test_the_newest_run_of_a_size_counts_and_nothing_else() -> None:
    others: list[dict[str, Any]] = [
        line(*SIZES[0]) | {"peer": "Other engine"},
        line(*SIZES[0]) | {"workload": "ss"},
        line(*SIZES[0]) | {"cache": True},
        line(*SIZES[0]) | {"epochs": [{"committed": 1.0}]},
    ]
    (run,) = runs([line(*SIZES[0], slower=3.0), line(*SIZES[0]), *others])
    assert run.epoch == pytest.approx(TRUE.epoch_of(1_000, 10**6))


def test_too_few_sizes_are_no_model() -> None:
    with pytest.raises(click.ClickException, match="1 sizes do not fix 3 coefficients"):
        found([line(*SIZES[0])])
