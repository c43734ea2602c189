"""The position of a source in the database's log, from the epoch log's line of its last commit.

| the last committed plan | the position |
|---|---|
| reads changes | the end of its range |
| reads a snapshot | the position of the last snapshot before the commit: a separate line |

Held by ``tests/infra/sources/postgres/test_kill.py``.
"""

from __future__ import annotations

import json

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.postgres.refusals import LogPositionLostError
from rivermeet.infra.postgres.wal_range import WalRange
from rivermeet.pipelines import Node


def position(log: EpochLog, node: Node, note: CommitNote | None) -> WalRange | None:
    """The last position of a source; None before the first.

    Raises
    ------
    LogPositionLostError
        If the epoch log does not have it.
    """
    if note is None:
        return None
    body = log.lines(node.name, "plan", note.epoch - 1).get(note.epoch)
    reads = EpochPlan.model_validate_json(body).reads if body is not None else None
    found = reads if isinstance(reads, WalRange) else None
    if found is not None and found.end is None:
        found = _snapshot(log, node.name, note.epoch)
    if found is None:
        raise LogPositionLostError(
            f"source '{node.pipeline.name}.{node.name}': the epoch log does not say up to where epoch {note.epoch} "
            f"read the database: put the log back ({log.path}), or run "
            f"`rivermeet resnapshot {node.pipeline.name} {node.name}`",
            epoch=note.epoch,
        )
    return found


def note_snapshot(log: EpochLog, plan: EpochPlan, taken: WalRange) -> None:
    """Record the position of a snapshot before the epoch is committed; the last one of an epoch counts."""
    attempt = len([epoch for epoch, _ in log.bodies(plan.node, "snapshot", plan.epoch - 1) if epoch == plan.epoch]) + 1
    body = json.dumps({"attempt": attempt, "wal": taken.model_dump()})
    log.write(plan.node, plan.incarnation, plan.epoch, "snapshot", body, attempt)


def _snapshot(log: EpochLog, node: str, epoch: int) -> WalRange | None:
    bodies = [json.loads(body) for found, body in log.bodies(node, "snapshot", epoch - 1) if found == epoch]
    last = max(bodies, key=lambda body: body["attempt"], default=None)
    return None if last is None else WalRange.model_validate(last["wal"])
