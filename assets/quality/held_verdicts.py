"""What a node's checks say while an epoch of it is held: what its audit found stays, until someone decides about it.

Checks that are run alone judge what is committed, and that is the epoch before. Were they green, then Dagster would
show a node as sound that commits nothing any more, while the report shows the epoch that it refused:

    epoch 1   committed    price_not_negative holds
    epoch 2   held         price_not_negative is violated        checks alone: violated, with the rows of epoch 2

Held by ``tests/assets/quality/test_planted.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rivermeet.assets.quality.quality_table import lines_about, quality_lines
from rivermeet.assets.refused.states import states
from rivermeet.expectations.history import FOUND
from rivermeet.expectations.results import InvariantResult
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.pipelines import Node


def as_held(context: EpochContext, node: Node, verdicts: Sequence[InvariantResult]) -> Sequence[InvariantResult]:
    """The verdicts of a node; of what its held epoch violates, those that its audit gave."""
    held = [state.held.epoch for state in states(context, node) if state.open]
    broken = _broken(context, node, held[-1]) if held else {}
    return [_held(v, broken[v.invariant.id]) if v.passed and v.invariant.id in broken else v for v in verdicts]


def _broken(context: EpochContext, node: Node, epoch: int) -> Mapping[str, Mapping[str, Any]]:
    """Invariant to its newest row of the quality table, of those that did not pass in an epoch."""
    assert context.quality is not None
    lines = quality_lines(context.quality, lines_about(node, epoch), oldest=epoch)
    newest = {line["invariant"]: line for line in sorted(lines, key=lambda line: line["judged_at"] or 0)}
    return {invariant: line for invariant, line in newest.items() if line["state"] != "passed"}


def _held(result: InvariantResult, line: Mapping[str, Any]) -> InvariantResult:
    found = {name: line[name] for name in FOUND if name != "state"}
    note = f"That is epoch {line['epoch']}, which is held; what is committed holds."
    return replace(result, **found, sample=json.loads(line["sample"] or "[]"), note=note)
