"""What a person decides about an epoch that its audit refused: to release its rows, or to drop them.

Release. The decision is of the rows that were seen and of the invariants that were broken then. Where the plan gives
others, or breaks another one, it is held again.

Drop. The input records of the epoch count as read, stream time moves on, late records and dead letters are kept, and
the rows stay in the quarantine. It is offered where later rows do not build on the dropped ones:

- A source: its records are in no changelog, as if they had never been delivered. A key of a table keeps the value that
  it had.
- A stream that is computed: its rows are lost and nothing else. The input records stay in the changelogs of the inputs,
  and later ones still join with them.

It is refused for a computed table, whose rows are changes of the rows before, and for a left or outer join of streams
by the documents' rules, which reads its own pairs to know who leaves alone. A rebuild computes all from the start, the
dropped rows too, and `rivermeet verify` shows by how many rows the result differs meanwhile.

Why: ``docs/decisions/quarantine.md``. Held by ``tests/assets/quality/test_quarantine.py``.
"""

from __future__ import annotations

from typing import Literal

import pyarrow.compute as pc

from rivermeet.assets.refused.states import HeldState, now, states
from rivermeet.infra import crash
from rivermeet.infra.commit_note import Decision
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.pipelines import Node
from rivermeet.pipelines.errors import RivermeetError


class UndecidableError(RivermeetError):
    """A decision that cannot be taken; the message says why, and what can be done."""

    remedy = "Look at what is held with `rivermeet quarantine show`; release it, or rebuild the node."


def sample(paths: NodeTables, epoch: int, limit: int) -> list[str]:
    """Some of an epoch's rows in quarantine, as JSON; read without Spark."""
    table = open_table(paths.quarantine)
    if table is None or limit < 1:
        return []
    rows = table.to_pyarrow_dataset().head(limit, columns=["row"], filter=pc.field("epoch") == epoch)
    return rows["row"].to_pylist()


def loss(node: Node) -> str:
    """What dropping an epoch of the node loses, and what it does to later ones.

    Raises
    ------
    UndecidableError
        Where later rows would be wrong without the dropped ones.
    """
    name = f"'{node.pipeline.name}.{node.name}'"
    otherwise = "release the epoch, or fix what is wrong and run again"
    if node.operation is None:
        kept = " A key keeps the value that it had until its next record." if node.is_table else ""
        return (
            f"The records that {name} read for this epoch will be in no changelog: whatever reads it goes on as if "
            f"they had never been delivered.{kept} Only a rebuild reads them again."
        )
    if node.is_table:
        raise UndecidableError(
            f"{name} is a computed table: its rows are changes of the rows before, and without some of them the table "
            f"and all later changes are wrong; {otherwise}"
        )
    if node.operation.undroppable is not None:
        raise UndecidableError(f"{name} {node.operation.undroppable}; {otherwise}")
    return (
        f"The rows that this epoch gave are lost to {name} and all that reads it. Its input records stay in the "
        "changelogs of its inputs, so later ones may still join with them. `rivermeet verify` will show the rows as "
        "missing; only a rebuild computes them again."
    )


def decide(context: EpochContext, node: Node, epoch: int, how: Literal["release", "drop"], by: str) -> Decision:
    """Log a decision about a held epoch; the next run of the node carries it out.

    Taken once more, it is the decision that stands.

    Raises
    ------
    UndecidableError
        Where the epoch is not held, was decided otherwise, or cannot be dropped.
    """
    # A run that is going on has read the log already.
    with context.lock(node).hold():
        found = decidable(context, node, epoch, how)
        if found.decision is not None:
            return found.decision
        held = found.held
        decision = Decision(
            how=how,
            epoch=epoch,
            attempt=held.attempt,
            invariants=held.invariants,
            digest=held.digest,
            by=by,
            at=now(),
            loss=loss(node) if how == "drop" else "",
        )
        context.log.write(node.name, held.incarnation, epoch, "decided", decision.model_dump_json(), held.attempt)
    crash.crash_at("decided", node.name)
    return decision


def decidable(context: EpochContext, node: Node, epoch: int, how: Literal["release", "drop"]) -> HeldState:
    """The state of an epoch that may be decided so; `UndecidableError` where it may not."""
    every = states(context, node)
    found = next((state for state in every if state.held.epoch == epoch), None)
    if found is None or not found.open:
        held = [str(state.held.epoch) for state in every if state.open]
        there = f"held: epoch {', '.join(held)}" if held else "no epoch of it is held"
        raise UndecidableError(
            f"'{node.pipeline.name}.{node.name}': epoch {epoch} {_past(found)}; {there}", epoch=epoch
        )
    if found.decision is not None and found.decision.how != how:
        raise UndecidableError(
            f"'{node.pipeline.name}.{node.name}': epoch {epoch} was {found.decision.summary}; "
            f"`rivermeet run {node.pipeline.name} --select {node.name}` carries that out",
            epoch=epoch,
        )
    if how == "drop":
        loss(node)
        plan = context.log.open_plan(node.name, epoch - 1)
        if plan is not None and plan.replaces:
            raise UndecidableError(
                f"'{node.pipeline.name}.{node.name}': epoch {epoch} recomputes the node, and without its rows "
                f"nothing would be left; release it, or fix what is wrong and run `{context.paths(node).rebuild}`",
                epoch=epoch,
            )
    return found


def _past(state: HeldState | None) -> str:
    if state is None:
        return "was never refused by its audit"
    if state.decision is not None:
        return f"is not held any more: it was {state.decision.summary}"
    return f"is not held any more: it was {'resolved by a later run' if state.state == 'resolved' else state.state}"
