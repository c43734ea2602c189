"""Up to where in the log a source has been read: what the epoch log says of its last commit.

| the last committed plan | the position |
|---|---|
| is of changes | where its range ends |
| is of a snapshot | where the last snapshot before the commit was taken: a line of its own |

Held by ``tests/infra/sources/postgres/test_kill.py``.
"""

from __future__ import annotations

import json

from rivermeet.infra.epochs.log import EpochLog
from rivermeet.infra.epochs.plan import CommitNote, EpochPlan, WalRange
from rivermeet.infra.postgres.refusals import PositionLostError
from rivermeet.pipelines import Node


def position(log: EpochLog, node: Node, note: CommitNote | None) -> WalRange | None:
    """What a source has read last; None before the first.

    Raises
    ------
    PositionLostError
        Where the epoch log does not have it.
    """
    if note is None:
        return None
    body = log.lines(node.name, "plan", note.epoch - 1).get(note.epoch)
    wal = EpochPlan.model_validate_json(body).wal if body is not None else None
    found = wal if wal is None or wal.end is not None else _snapshot(log, node.name, note.epoch)
    if found is None:
        raise PositionLostError(
            f"source '{node.pipeline.name}.{node.name}': the epoch log does not say up to where epoch {note.epoch} "
            f"read the database: put the log back ({log.path}), or run "
            f"`rivermeet resnapshot {node.pipeline.name} {node.name}`"
        )
    return found


def note_snapshot(log: EpochLog, plan: EpochPlan, taken: WalRange) -> None:
    """Write where a snapshot was taken, before the epoch is committed; the last one of an epoch counts."""
    attempt = len([epoch for epoch, _ in log.bodies(plan.node, "snapshot", plan.epoch - 1) if epoch == plan.epoch]) + 1
    body = json.dumps({"attempt": attempt, "wal": taken.model_dump()})
    log.write(plan.node, plan.incarnation, plan.epoch, "snapshot", body, attempt)


def _snapshot(log: EpochLog, node: str, epoch: int) -> WalRange | None:
    bodies = [json.loads(body) for found, body in log.bodies(node, "snapshot", epoch - 1) if found == epoch]
    last = max(bodies, key=lambda body: body["attempt"], default=None)
    return None if last is None else WalRange.model_validate(last["wal"])
