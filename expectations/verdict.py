"""The outcome of one invariant, as a check shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rivermeet.expectations.invariant import Severity
from rivermeet.expectations.results import InvariantResult, State


@dataclass(frozen=True)
class Verdict:
    """One invariant's outcome, as a check shows it.

    Attributes
    ----------
    success
        Whether it was evaluated and holds; ``state`` distinguishes "violated" from "not evaluated".
    description
        One line: the sentence, and what was found.
    details
        ``state``, ``checked``, ``violations``, ``seconds`` (numbers, None where unknown),
        ``sample`` (rows of text), ``sql``, ``source``, ``error``, ``scope`` ("epoch" or "whole"),
        ``judged_by`` (the engine), ``because`` (why it is Spark).
    """

    invariant: str
    success: bool
    state: State
    severity: Severity
    blocking: bool
    description: str
    details: Mapping[str, Any]


def verdict(result: InvariantResult) -> Verdict:
    """Word a result."""
    invariant = result.invariant
    return Verdict(
        invariant=invariant.id,
        success=result.passed,
        state=result.state,
        severity=invariant.severity,
        blocking=invariant.blocking,
        description=f"{invariant.sentence} {_found(result)}",
        details={
            "state": result.state,
            "checked": result.checked,
            "violations": result.violations,
            "seconds": round(result.seconds, 3),
            "sample": result.sample,
            "sql": result.sql,
            "source": invariant.source,
            "error": result.error,
            "scope": result.scope,
            "judged_by": result.judged_by,
            "because": result.because,
        },
    )


def _found(result: InvariantResult) -> str:
    if result.state == "not evaluated":
        reason = (result.error or "no reason known").splitlines()[0]
        return f"Could not be evaluated: {reason[:200]}"
    of = "" if result.checked is None else f" in {result.checked:,} rows"
    if not result.violations:
        return f"No violations{of}."
    share = f" ({result.violations / result.checked:.1%})" if result.invariant.tolerated and result.checked else ""
    return f"{result.violations:,} violations{of}{share}."
