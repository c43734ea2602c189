"""Epochs that their audit refused, and what a person decided about them: lines of the epoch log.

A refused epoch keeps its plan and blocks its node, since the next run executes that plan unchanged. What became of
it is in the log and the changelog's position:

    plan 3
    held 3, attempt 1      price_not_negative is broken; digest 5f0c of the rows
    held 3, attempt 2      a rule was corrected: the rows are others now, and someone has to look again
    decided 3, attempt 2   ines releases them, at 09:12
    measured 3             committed: the note of the commit has the decision, too

A decision is of one attempt: of the rows that a person saw, by their digest, and of the invariants that were
broken then. If the plan gives other rows, or breaks another one, the epoch is held again. Each attempt is decided once.

A drop: the input records of the epoch count as read, stream time moves on, late records and dead letters are kept, and
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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from rivermeet.infra import crash
from rivermeet.infra.commit_note import Decision
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.pipelines import Node
from rivermeet.pipelines.errors import RivermeetError
from rivermeet.pipelines.plural import pluralize

State = Literal["held", "released", "dropped", "release to be run", "drop to be run", "resolved", "put aside"]


class AuditRefusedError(EpochRefusedError):
    """An epoch that its audit refused; ``results`` are what it found of each invariant, each an `InvariantResult`."""

    remedy = "Correct what broke the invariant and run again, or decide with `rivermeet quarantine`."

    def __init__(self, message: str, epoch: int, results: Sequence[Any]) -> None:
        super().__init__(message, epoch=epoch)
        self.epoch = epoch
        self.results = results


class Broken(BaseModel):
    """A blocking invariant as it was broken; ``violations`` is None where it could not be evaluated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    sentence: str
    violations: int | None
    error: str | None
    sql: str

    @property
    def finding(self) -> str:
        """What the audit saw, in a few words."""
        return pluralize(self.violations or 0, "violation") if self.error is None else self.error.splitlines()[0]


class HeldEpoch(BaseModel):
    """One refusal of an epoch by its audit.

    Attributes
    ----------
    attempt
        From 1; it goes up when the same plan gives other rows or breaks other invariants.
    rows
        How many rows the epoch would have committed.
    digest
        Of those rows, whatever order they were read in.
    run, at
        The run that saw it first, and when (ISO 8601).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epoch: int
    incarnation: int
    attempt: int
    rows: int
    digest: str
    broken: tuple[Broken, ...]
    run: str
    at: str

    @property
    def invariants(self) -> tuple[str, ...]:
        """Ids of what is broken."""
        return tuple(rule.id for rule in self.broken)

    def same_as(self, other: HeldEpoch) -> bool:
        """Whether both are about the same rows and invariants."""
        return (self.digest, set(self.invariants)) == (other.digest, set(other.invariants))


@dataclass(frozen=True)
class HeldState:
    """A refused epoch and what became of it; ``why`` is there for one that was put aside."""

    held: HeldEpoch
    state: State
    decision: Decision | None = None
    why: str = ""

    @property
    def open(self) -> bool:
        """Whether the node still waits for this epoch."""
        return self.state in ("held", "release to be run", "drop to be run")

    @property
    def summary(self) -> str:
        """The state in a few words, with who decided."""
        if self.state in ("released", "dropped") and self.decision is not None:
            return self.decision.summary
        return f"{self.state}: {self.why}" if self.why else self.state


_Line = TypeVar("_Line", HeldEpoch, Decision)


def find_held(log: EpochLog, node: str, after: int = 0) -> Mapping[int, HeldEpoch]:
    """Epoch to its newest refusal, past epoch ``after``, in order."""
    return _newest(HeldEpoch.model_validate_json(body) for _, body in log.bodies(node, "held", after))


def decisions(log: EpochLog, node: str, after: int = 0) -> Mapping[int, Decision]:
    """Epoch to its newest decision, past epoch ``after``."""
    return _newest(Decision.model_validate_json(body) for _, body in log.bodies(node, "decided", after))


def decision_on(log: EpochLog, plan: EpochPlan) -> Decision | None:
    """The decision that holds for an epoch; None where there is none, or where it was held again since."""
    decision = decisions(log, plan.node, plan.epoch - 1).get(plan.epoch)
    if decision is None:
        return None
    held = find_held(log, plan.node, plan.epoch - 1).get(plan.epoch)
    return decision if held is None or held.attempt == decision.attempt else None


def list_states(log: EpochLog, node: str, committed: int) -> list[HeldState]:
    """What became of each refused epoch; ``committed`` is the node's last epoch."""
    every = find_held(log, node)
    if not every:
        return []
    refused, decided = log.lines(node, "refused"), decisions(log, node)
    found = []
    for epoch, held in every.items():
        decision = decided.get(epoch)
        if decision is not None and decision.attempt != held.attempt:
            decision = None
        state = _state(decision, epoch <= committed) if epoch not in refused else "put aside"
        found.append(HeldState(held, state, decision, refused.get(epoch, "")))
    return found


def states(context: EpochContext, node: Node) -> list[HeldState]:
    """What became of each refused epoch of a node, oldest first; read without Spark."""
    found = last_note(context.paths(node).changelog)
    return list_states(context.log, node.name, found[1].epoch if found else 0)


def find_lost(context: EpochContext, node: Node) -> list[HeldState]:
    """Epochs that were dropped from the changelog as it is now."""
    found = last_note(context.paths(node).changelog)
    since = found[1].since if found else 0
    return [state for state in states(context, node) if state.state == "dropped" and state.held.epoch >= since]


def now() -> str:
    """The time as refusals and decisions have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _state(decision: Decision | None, committed: bool) -> State:
    if decision is None:
        return "resolved" if committed else "held"
    if committed:
        return "released" if decision.how == "release" else "dropped"
    return "release to be run" if decision.how == "release" else "drop to be run"


def _newest(lines: Iterable[_Line]) -> Mapping[int, _Line]:
    ordered = sorted(lines, key=lambda line: (line.epoch, line.attempt))
    return {line.epoch: line for line in ordered}


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
