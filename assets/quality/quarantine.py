"""Quarantine: where the rows of an epoch lie that its audit refused, until it is fixed or a person decides.

    | state | what it means for the node | left by |
    |---|---|---|
    | held | a blocking invariant is violated: nothing is committed, nothing newer is read | the audit |
    | released | the same plan was committed as it is; its checks stay red | ``rivermeet quarantine release`` |
    | dropped | committed without its rows: the position moved on | ``rivermeet quarantine drop`` |
    | resolved | the plan was committed by a later run, after what was wrong had been fixed | ``rivermeet run`` |
    | put aside | the plan is no more: a file of it was changed, or something was recomputed | whatever did so |

However often it is run again, a held epoch is in the quarantine once; where it gives other rows, or breaks another
invariant, they take the place of those before. What a person decides is in ``assets/refused/states.py``.

Why: ``docs/decisions/quarantine.md``. Held by ``tests/assets/quality/test_quarantine.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rivermeet.assets.quality.relations.parts import locate, sql_name
from rivermeet.assets.refused.states import AuditRefusedError, Broken, HeldEpoch, find_held, now
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra.commit_note import Decision
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.scan import type_of
from rivermeet.infra.delta.side_tables import write_side
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def enforce(
    context: EpochContext,
    node: Node,
    plan: EpochPlan,
    rows: DataFrame,
    results: Sequence[InvariantResult],
    decision: Decision | None,
    run: str,
) -> Sequence[InvariantResult]:
    """Let an epoch pass, or quarantine its rows and raise `AuditRefusedError` with what was found.

    The ``results`` are given back with SQL that reads the rows where they lie, in place of where they were to be
    committed: an epoch that is refused or dropped has them in the quarantine alone. Late records of a refused epoch lie
    nowhere, so that their share is judged when the epoch is committed.
    """
    broken = [r for r in results if r.invariant.blocking and not r.passed]
    if not broken and not (decision and decision.drops):
        return results
    paths = context.paths(node)
    moved = [replace(r, sql=_in_quarantine(r.sql, rows, paths, plan.epoch)) for r in results]
    rules = [
        Broken(id=r.invariant.id, sentence=r.invariant.sentence, violations=r.violations, error=r.error, sql=r.sql)
        for r in moved
        if r.invariant.blocking and not r.passed
    ]
    count, digest = _digest(rows)
    before = find_held(context.log, node.name, plan.epoch - 1).get(plan.epoch)
    found = HeldEpoch(
        epoch=plan.epoch,
        incarnation=plan.incarnation,
        attempt=before.attempt + 1 if before else 1,
        rows=count,
        digest=digest,
        broken=tuple(rules),
        run=run,
        at=now(),
    )
    if before is not None and decision is not None and (decision.drops or decision.accepts(digest, found.invariants)):
        _keep(paths, plan, rows, before, digest, decision)
        return moved if decision.drops else results
    if before is not None and before.same_as(found):
        found = before
    _keep(paths, plan, rows, found, digest)
    # After the rows: where the log says that an epoch is held, they can be seen.
    context.log.write(node.name, plan.incarnation, plan.epoch, "held", found.model_dump_json(), found.attempt)
    late = sql_name(paths, "late")
    readable = [r for r in moved if late not in r.sql]
    cure = next(r.invariant.cure(node) for r in moved if r.invariant.id == found.broken[0].id)
    raise AuditRefusedError(_refusal(node, found, cure), plan.epoch, readable)


def _digest(rows: DataFrame) -> tuple[int, str]:
    """How many rows, and a number that is another one for other rows."""
    from pyspark.sql import functions as F

    record = F.to_json(F.struct("key", "value", "timestamp", "partition", "offset"), {"ignoreNullFields": "false"})
    count, digest = rows.agg(F.count("*"), F.bit_xor(F.xxhash64(record))).collect()[0]
    return count, f"{(digest or 0) % 2**64:016x}"


def _in_quarantine(sql: str, rows: DataFrame, paths: NodeTables, epoch: int) -> str:
    """A query over the rows as they were to be committed, over the quarantine instead."""
    there = f"{sql_name(paths, 'quarantine')} WHERE epoch = {epoch}"
    row = f"CAST(CAST(row AS JSON) AS {type_of(rows.schema)})"
    return locate(sql, paths, f"(SELECT unnest({row}) FROM {there})")


def _keep(
    paths: NodeTables, plan: EpochPlan, rows: DataFrame, held: HeldEpoch, digest: str, decision: Decision | None = None
) -> None:
    """Write the rows of an attempt to the quarantine, in place of those of the one before."""
    from pyspark.sql import functions as F

    decided = decision.summary if decision else None
    kept = rows.select(
        F.lit(held.incarnation).cast("int").alias("incarnation"),
        F.lit(held.attempt).cast("int").alias("attempt"),
        F.lit(", ".join(held.invariants)).alias("invariants"),
        F.lit(" ".join(rule.sentence for rule in held.broken)).alias("sentence"),
        F.lit(held.run).alias("run"),
        F.lit(held.at).cast("timestamp").alias("at"),
        F.lit(decided).cast("string").alias("decided"),
        F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row"),
    )
    besides = f"{held.attempt} {','.join(held.invariants)} {digest} {decided or ''}"
    write_side(kept, paths.quarantine, paths.app_id("quarantine", plan.incarnation), plan, besides)


def _refusal(node: Node, held: HeldEpoch, cure: str | None) -> str:
    first, where = held.broken[0], f"{node.pipeline.name} --select {node.name}"
    return (
        f"{node.pipeline.name}.{node.name}: epoch {held.epoch} was not committed. {first.sentence} "
        f"({first.finding}; broken: {', '.join(held.invariants)}). Its inputs stay unread. "
        f"{cure or 'Fix what is wrong and run again'}; or look at its rows with "
        f"`rivermeet quarantine show {where}`, then commit them as they are with "
        f"`rivermeet quarantine release {where} --epoch {held.epoch}`, or pass them over with "
        f"`rivermeet quarantine drop {where} --epoch {held.epoch}`. The violations: {first.sql}"
    )
