"""Histories as the ``quality`` table and the epoch log keep them, of nodes in `tests.expectations.nodes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.report.page import NodeHistory
from rivermeet.expectations.results import InvariantResult, history
from rivermeet.pipelines import Node

NASTY = "</script><img src=x onerror=\"document.title='broken'\"><b>&amp; {{ 7 * 7 }} \u2028`"
NOW = 1_795_000_000_000
DAY = 86_400_000


def results(node: Node, epoch: int, wrong: Mapping[str, InvariantResult] | None = None) -> list[InvariantResult]:
    """One result for each invariant: passed, but for those that are given."""
    return [
        (wrong or {}).get(
            invariant.id,
            InvariantResult(invariant, 100 * epoch + place, 0, [], f"SELECT {place} FROM e{epoch}", 0.01 * place),
        )
        for place, invariant in enumerate(invariants_of(node))
    ]


def found(
    node: Node,
    invariant: str,
    violations: int | None,
    sample: Sequence[Mapping[str, str]] = (),
    sql: str = "SELECT bad",
    error: str | None = None,
) -> dict[str, InvariantResult]:
    """A result that is not passed, by its invariant."""
    rule = next(rule for rule in invariants_of(node) if rule.id == invariant)
    return {invariant: InvariantResult(rule, 12_345, violations, [dict(row) for row in sample], sql, 1.25, error)}


def judged(node: Node, epochs: Mapping[int, Mapping[str, InvariantResult]], run: str = "r1") -> list[dict[str, Any]]:
    """Rows of the ``quality`` table: of each epoch, with what was not passed in it."""
    rows = [row for epoch, wrong in epochs.items() for row in history(node, epoch, run, results(node, epoch, wrong))]
    return [row | {"judged_at": NOW + row["epoch"]} for row in rows]


def line(epoch: int, **other: Any) -> dict[str, Any]:
    """A line of the epoch log."""
    phases = {"plan": 0.1, "compute": 1.0 + epoch / 8, "audit": 0.5, "commit": 0.25, "fold": 0.125 * epoch}
    made = {
        "epoch": epoch,
        "incarnation": 1,
        "rows_in": {"left": 1000 * epoch, "right": 900 * epoch},
        "consumed": {"left": [1, 1000 * epoch], "right": [1, 900 * epoch]},
        "files": 0,
        "delivered_at": None,
        "committed_at": NOW + epoch * DAY,
        "newest_event": NOW + epoch * DAY - epoch * 3_600_000,
        "rows": 950 * epoch,
        "tombstones": 0,
        "one_sided": 40 + epoch,
        "late": 3 * epoch,
        "ends": {"0": 950 * epoch},
        "seconds": phases,
    }
    return made | other


def of_source(epoch: int) -> dict[str, Any]:
    """A line of a source: 1,200 records an epoch; its joins read fewer."""
    return line(
        epoch,
        rows_in={},
        consumed={},
        files=2,
        delivered_at=NOW + epoch * DAY - 90_000,
        one_sided=None,
        dead_letter=epoch % 2,
        ends={"0": 700 * epoch - 1, "1": 500 * epoch - 1},
        committed_at=NOW + epoch * DAY - 60_000,
    )


def node_history(node: Node, rows: Sequence[Mapping[str, Any]], measured: Sequence[Mapping[str, Any]]) -> NodeHistory:
    """What the report is made from."""
    epochs = sorted({row["epoch"] for row in [*rows, *measured]})
    inputs = (
        {side: [of_source(epoch) for epoch in epochs] for side in node.operation.stored_inputs}
        if node.operation
        else {}
    )
    return NodeHistory(
        node,
        about=f"Tested with {NASTY}",
        committed=epochs[-1],
        epochs=epochs,
        judged=rows,
        measured=measured,
        inputs=inputs,
    )
