"""Verdicts: Great Expectations judges what was evaluated, and keeps the results.

Spark finds the violations; what is judged here is one row per invariant, in pandas. The suite is
built from the invariants every time, since a suite that is read from a file can load empty and
pass. What is judged must be all that was declared.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expectations.gx_class import expect_invariant_holds
from expectations.results import InvariantResult
from expectations.verdict import Verdict, verdict

if TYPE_CHECKING:
    import pandas as pd

KEPT_RUNS = 200
_ONE_AT_A_TIME = threading.Lock()


class SuiteError(RuntimeError):
    """Great Expectations did not judge what was declared, or not as it was evaluated."""


def judge(
    results: Sequence[InvariantResult],
    asset: str,
    run_name: str,
    folder: Path,
    keep: int = KEPT_RUNS,
) -> list[Verdict]:
    """Judge evaluated invariants of one asset; one verdict for each, in their order.

    Parameters
    ----------
    asset
        Names the suite; results of one asset are kept together.
    run_name
        Names this validation, like ``epoch-000007``.
    folder
        Holds the file context; made where it is missing.
    keep
        Newest runs of the asset whose results are kept.
    """
    if not results:
        return []
    # Great Expectations takes a dot for a folder.
    name = re.sub(r"\W+", "-", asset).strip("-")
    with _alone(folder):
        outcome = _validated(results, name, run_name, folder)
        _prune(folder / "gx/uncommitted/validations" / name, keep)
    judged = {one.expectation_config.kwargs["invariant"]: one for one in outcome.results}
    if outcome.statistics["evaluated_expectations"] != len(results) or len(judged) != len(results):
        raise SuiteError(f"{asset}: {len(results)} invariants declared, {len(judged)} judged")
    for result in results:
        if judged[result.invariant.id].success is not result.passed:
            raise SuiteError(f"{asset}: {result.invariant.id}, {result.state}, judged otherwise")
    return [verdict(result) for result in results]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One validation at a time, of all threads and processes: a context's files need that."""
    folder.mkdir(parents=True, exist_ok=True)
    with _ONE_AT_A_TIME, open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def _context(folder: Path) -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="file", project_root_dir=folder)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


@cache
def _frames(folder: Path, name: str) -> Any:
    """Batch definition that takes an asset's results."""
    source = _context(folder).data_sources.add_or_update_pandas(f"invariants of {name}")
    return source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("results")


def _validated(results: Sequence[InvariantResult], name: str, run_name: str, folder: Path) -> Any:
    context, frames = _context(folder.resolve()), _frames(folder.resolve(), name)
    from great_expectations import Checkpoint, ExpectationSuite, ValidationDefinition
    from great_expectations.core.run_identifier import RunIdentifier

    suite = context.suites.add_or_update(
        ExpectationSuite(name=name, expectations=[_expectation(result) for result in results])
    )
    validation = context.validation_definitions.add_or_update(ValidationDefinition(name=name, data=frames, suite=suite))
    checkpoint = context.checkpoints.add_or_update(
        Checkpoint(name=name, validation_definitions=[validation], actions=[], result_format="COMPLETE")
    )
    outcome = checkpoint.run(batch_parameters={"dataframe": _frame(results)}, run_id=RunIdentifier(run_name=run_name))
    (judged,) = outcome.run_results.values()
    return judged


def _expectation(result: InvariantResult) -> Any:
    invariant = result.invariant
    return expect_invariant_holds()(
        invariant=invariant.id,
        description=invariant.sentence,
        severity=invariant.severity,
        meta={"sentence": invariant.sentence, "source": invariant.source},
    )


def _frame(results: Sequence[InvariantResult]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {
            "invariant": result.invariant.id,
            "checked": -1 if result.checked is None else result.checked,
            "violations": -1 if result.violations is None else result.violations,
            "allowed": result.allowed,
            "sample": json.dumps(result.sample),
            "sql": result.sql,
            "error": "" if result.state != "not evaluated" else result.error or "not evaluated",
        }
        for result in results
    )


def _prune(runs: Path, keep: int) -> None:
    kept = sorted(runs.glob("*"), key=lambda run: run.stat().st_mtime_ns, reverse=True)[:keep]
    for run in runs.glob("*"):
        if run not in kept:
            shutil.rmtree(run, ignore_errors=True)
