"""Verdicts: Great Expectations judges what was evaluated, and keeps the results.

Spark finds the violations; what is judged here is one row per invariant, in pandas. The suite is
built from the invariants every time, since a suite that is read from a file can load empty and
pass. What is judged must be all that was declared.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expectations.gx.context import alone, context_of
from expectations.gx.data_docs import docs_folder, write_page
from expectations.gx.expectation import expect_invariant_holds
from expectations.results import InvariantResult
from expectations.verdict import Verdict, verdict

if TYPE_CHECKING:
    import pandas as pd

KEPT_RUNS = 200
RESULTS = "results"
_LOG = logging.getLogger(__name__)


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
        Newest validations of the asset whose results and pages are kept.
    """
    if not results:
        return []
    # Great Expectations takes a dot for a folder.
    name = re.sub(r"\W+", "-", asset).strip("-")
    with alone(folder):
        key, outcome = _validated(results, name, run_name, folder)
        page = _page(folder, key, outcome, asset)
        _prune(folder, name, keep)
    judged = {one.expectation_config.kwargs["invariant"]: one for one in outcome.results}
    if outcome.statistics["evaluated_expectations"] != len(results) or len(judged) != len(results):
        raise SuiteError(f"{asset}: {len(results)} invariants declared, {len(judged)} judged")
    for result in results:
        if judged[result.invariant.id].success is not result.passed:
            raise SuiteError(f"{asset}: {result.invariant.id}, {result.state}, judged otherwise")
    return [replace(verdict(result), page=page) for result in results]


@cache
def _frames(folder: Path) -> Any:
    """Batch definition that takes results; one of all assets, as each that is added writes the whole configuration."""
    source = context_of(folder).data_sources.add_or_update_pandas(RESULTS)
    return source.add_dataframe_asset(RESULTS).add_batch_definition_whole_dataframe(RESULTS)


def _validated(results: Sequence[InvariantResult], name: str, run_name: str, folder: Path) -> tuple[Any, Any]:
    """The identifier of a validation, and its result; without a checkpoint, which would only call it."""
    context, frames = context_of(folder.resolve()), _frames(folder.resolve())
    from great_expectations import ExpectationSuite, ValidationDefinition
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    suite = context.suites.add_or_update(
        ExpectationSuite(name=name, expectations=[_expectation(result) for result in results])
    )
    validation = context.validation_definitions.add_or_update(ValidationDefinition(name=name, data=frames, suite=suite))
    run_id = RunIdentifier(run_name=run_name, run_time=datetime.now(UTC))
    frame = {"dataframe": _frame(results)}
    outcome = validation.run(batch_parameters=frame, run_id=run_id, result_format="COMPLETE")
    return ValidationResultIdentifier(ExpectationSuiteIdentifier(name), run_id, f"{RESULTS}-{RESULTS}"), outcome


def _page(folder: Path, key: Any, outcome: Any, asset: str) -> Path | None:
    """The validation's page; None where it cannot be written, for that must lose no verdict."""
    try:
        return write_page(folder, key, outcome, asset)
    except Exception:  # whatever a template or a disk may raise
        _LOG.exception("%s: no page in Data Docs", asset)
        return None


def _expectation(result: InvariantResult) -> Any:
    invariant = result.invariant
    return expect_invariant_holds()(
        invariant=invariant.id,
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


def _prune(folder: Path, name: str, keep: int) -> None:
    """Keep the newest validations, each a folder ``RUN/TIME``; one run may be judged more than once."""
    results, pages = folder / "gx/uncommitted/validations" / name, docs_folder(folder) / "validations" / name
    newest = sorted((path for path in results.glob("*/*") if path.is_dir()), key=lambda path: path.name, reverse=True)
    for old in newest[keep:]:
        for path in (old, pages / old.relative_to(results)):
            shutil.rmtree(path, ignore_errors=True)
            if path.parent.is_dir() and not any(path.parent.iterdir()):
                path.parent.rmdir()
