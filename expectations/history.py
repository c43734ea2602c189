"""History of quality: one row per node, epoch and invariant, for the ``quality`` table."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from rivermeet.expectations.results import InvariantResult
from rivermeet.pipelines import Node

SCHEMA = {
    "pipeline": "string",
    "node": "string",
    "epoch": "int64",
    "invariant": "string",
    "stage": "string",
    "severity": "string",
    "blocking": "bool",
    "state": "string",
    "checked": "int64",
    "violations": "int64",
    "seconds": "double",
    "sample": "string",
    "sql": "string",
    "error": "string",
    "run": "string",
    "scope": "string",
    "judged_by": "string",
    "because": "string",
    "judged_at": "int64",
}
"""Columns of the table with their Arrow types.

``sample`` is JSON, ``judged_by`` the engine, ``because`` why it is Spark, ``judged_at`` wall clock (ms).
"""


FOUND = ("state", "checked", "violations", "seconds", "sql", "error", "scope", "judged_by", "because")
"""Columns that an `InvariantResult` has as attributes."""


def history(node: Node, epoch: int, run: str, results: Sequence[InvariantResult]) -> list[dict[str, Any]]:
    """Rows of the table for one evaluation by a run; ``epoch`` is the one judged, or the last of the tables judged."""
    about = {"pipeline": node.pipeline.name, "node": node.name, "epoch": epoch, "run": run}
    about["judged_at"] = int(time.time() * 1000)
    return [
        about
        | {name: getattr(result, name) for name in FOUND}
        | {name: getattr(result.invariant, name) for name in ("stage", "severity", "blocking")}
        | {"invariant": result.invariant.id, "sample": json.dumps(result.sample, ensure_ascii=False)}
        for result in results
    ]
