"""Who judges: DuckDB in this process; Spark where the files are more than one process should read, and some rules.

| ``RIVERMEET_JUDGE`` | judges |
|---|---|
| ``auto`` | DuckDB up to `MOST` bytes of files for one evaluation, else Spark; Spark also what DuckDB cannot evaluate |
| ``duckdb`` | DuckDB; what it cannot evaluate is not evaluated |
| ``spark`` | Spark |

Each verdict says which engine it is of. Held by ``tests/assets/quality/test_judges.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from rivermeet.expectations.invariant import Invariant, relations_of
from rivermeet.expectations.judge.duck import InProcess
from rivermeet.expectations.judge.expressions import unlike
from rivermeet.expectations.judge.spark import OnEngine
from rivermeet.expectations.results import InvariantResult, Judged, Relation
from rivermeet.expectations.rules.derived import DERIVED
from rivermeet.expectations.rules.record_sql import users_expressions
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.pipelines import Node

MOST = 4 * 2**30
"""Bytes of Parquet files."""


def evaluate(context: EpochContext, node: Node, rules: Sequence[Invariant], judged: Judged) -> list[InvariantResult]:
    """Judge a node; one result for each rule, in their order."""
    quality = context.quality
    assert quality is not None, "verdicts are kept somewhere"
    engine = OnEngine(context.session)
    judged = replace(judged, relations={name: cache(make) for name, make in judged.relations.items()})
    because = "RIVERMEET_JUDGE=spark" if quality.judge == "spark" else ""
    if quality.judge == "auto" and (read := _bytes(node, rules, judged)) > MOST:
        because = f"{read:,} bytes of files are more than {MOST:,}"
    if because:
        return [replace(result, because=because) for result in engine.evaluate(node, rules, judged)]
    alike = [rule for rule in rules if unlike(node, rule) is None]
    found = {r.invariant.id: r for r in InProcess(quality.memory, quality.spill).evaluate(node, alike, judged)}
    if quality.judge == "auto":
        again = [rule for rule in rules if rule.id not in found or not _stands(node, found[rule.id])]
        for result in engine.evaluate(node, again, judged):
            mine = found.get(result.invariant.id)
            result = replace(result, because=_because(node, result.invariant, mine))
            if mine is not None and mine.state == "violated":
                # DuckDB's query is the one that a user can run.
                result = replace(result, sql=mine.sql)
            found[result.invariant.id] = result
    return [found[rule.id] if rule.id in found else _not_asked(node, rule, judged) for rule in rules]


def _stands(node: Node, found: InvariantResult) -> bool:
    """Whether DuckDB's verdict is the last word: of a violation by an expression of users Spark has it.

    Decimals of more than 38 digits are rounded by Spark, and are another number to DuckDB.
    """
    return found.passed or (found.state == "violated" and not users_expressions(found.invariant.violations(node)))


def _because(node: Node, rule: Invariant, mine: InvariantResult | None) -> str:
    """Why Spark judges a rule, of which DuckDB may have found something."""
    if mine is None:
        return f"DuckDB may understand {unlike(node, rule)!r} otherwise"
    if mine.state == "violated":
        return "DuckDB found violations by an expression of the pipeline's own"
    return f"DuckDB could not evaluate it: {(mine.error or 'no reason known').splitlines()[0][:200]}"


def _not_asked(node: Node, rule: Invariant, judged: Judged) -> InvariantResult:
    reason = f"DuckDB may understand {unlike(node, rule)!r} otherwise than Spark; set RIVERMEET_JUDGE=auto"
    return InvariantResult(rule, None, None, [], "", 0.0, reason, judged.scope)


def _bytes(node: Node, rules: Sequence[Invariant], judged: Judged) -> int:
    """Of the files that rules read, each counted once; what cannot be had is for the evaluation to say."""
    names: set[str] = set()
    for rule in rules:
        try:
            named = relations_of(rule.violations(node))
        except Exception:  # a rule of a user's that is no query
            continue
        derived = [DERIVED[name](node) for name in named if name in DERIVED]
        names |= {name for query in derived for name in relations_of(query)} | {*named}
    return sum(_size(judged.relations[name]) for name in names if name in judged.relations)


def _size(make: Callable[[], Relation]) -> int:
    try:
        return sum(part.bytes for part in make().parts.values())
    except Exception:
        return 0
