"""Which engine judges: DuckDB in this process, or Spark if one process should not read that much, and for some rules.

| ``RIVERMEET_JUDGE`` | judges |
|---|---|
| ``auto`` | DuckDB up to `DUCKDB_BYTES` of files in one evaluation, else Spark; Spark also what DuckDB cannot |
| ``duckdb`` | DuckDB; what it cannot evaluate is not evaluated |
| ``spark`` | Spark |

Each verdict names its engine. Held by ``tests/assets/quality/test_judges.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from rivermeet.assets.quality.quality_table import quality_of
from rivermeet.expectations.invariant import Invariant, relations_of
from rivermeet.expectations.judge.duck import InProcess
from rivermeet.expectations.judge.expressions import unlike
from rivermeet.expectations.judge.spark import OnEngine
from rivermeet.expectations.results import InvariantResult, Judged
from rivermeet.expectations.rules.derived import derive
from rivermeet.expectations.rules.record_sql import users_expressions
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.pipelines import Node, limits


def evaluate(context: EpochContext, node: Node, rules: Sequence[Invariant], judged: Judged) -> list[InvariantResult]:
    """Judge a node; one result for each rule, in their order."""
    quality, engine = quality_of(context), OnEngine(context.session)
    judged = replace(judged, relations={name: cache(make) for name, make in judged.relations.items()})
    because = "RIVERMEET_JUDGE=spark" if quality.judge == "spark" else ""
    if quality.judge == "auto" and (read := _bytes(node, rules, judged)) > limits.DUCKDB_BYTES:
        because = f"{read:,} bytes of files are more than {limits.DUCKDB_BYTES:,}"
    if because:
        return [replace(result, because=because) for result in engine.evaluate(node, rules, judged)]
    alike = [rule for rule in rules if unlike(node, rule) is None]
    found = {r.invariant.id: r for r in InProcess(quality.memory, quality.spill).evaluate(node, alike, judged)}
    if quality.judge == "duckdb":
        for rule in (rule for rule in rules if rule not in alike):
            reason = f"{_because(node, rule, None)} than Spark; set RIVERMEET_JUDGE=auto"
            found[rule.id] = InvariantResult(rule, None, None, [], "", 0.0, reason, judged.scope)
        return [found[rule.id] for rule in rules]
    again = {rule: why for rule in rules if (why := _because(node, rule, found.get(rule.id)))}
    for result in engine.evaluate(node, list(again), judged):
        mine = found.get(result.invariant.id)
        result = replace(result, because=again[result.invariant])
        # Of what DuckDB found, its query is the one that a user can run.
        found[result.invariant.id] = replace(result, sql=mine.sql) if mine and mine.state == "violated" else result
    return [found[rule.id] for rule in rules]


def _because(node: Node, invariant: Invariant, mine: InvariantResult | None) -> str | None:
    """Why Spark judges a rule that DuckDB may have judged; None where DuckDB's verdict is the last word."""
    if mine is None:
        return f"DuckDB may understand {unlike(node, invariant)!r} otherwise"
    if mine.state == "not evaluated":
        return f"DuckDB could not evaluate it: {(mine.error or 'no reason known').splitlines()[0][:200]}"
    # Spark rounds decimals of more than 38 digits, which are another number to DuckDB.
    if mine.state == "violated" and users_expressions(invariant.violations(node)):
        return "DuckDB found violations by an expression of the pipeline's own"
    return None


def _bytes(node: Node, rules: Sequence[Invariant], judged: Judged) -> int:
    """Size of the files that rules read, each counted once; what cannot be read, the evaluation reports."""
    names: set[str] = set()
    for rule in rules:
        try:
            named = relations_of(rule.violations(node))
        except Exception:  # a user's rule that is not a query
            continue
        derived = [query(node) for name, query in derive(node).items() if name in named]
        names |= {name for query in derived for name in relations_of(query)} | {*named}
    size = 0
    for name in names & set(judged.relations):
        with suppress(Exception):
            size += sum(part.size() for part in judged.relations[name]().parts.values())
    return size
