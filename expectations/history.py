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


def history(node: Node, epoch: int, run: str, results: Sequence[InvariantResult]) -> list[dict[str, Any]]:
    """Rows of the table for one evaluation, in the columns of `SCHEMA`.

    Parameters
    ----------
    epoch
        The epoch that was judged, or the last one of the tables that were.
    run
        Id of the run that judged it.
    """
    now = int(time.time() * 1000)
    return [
        {
            "pipeline": node.pipeline.name,
            "node": node.name,
            "epoch": epoch,
            "invariant": result.invariant.id,
            "stage": result.invariant.stage,
            "severity": result.invariant.severity,
            "blocking": result.invariant.blocking,
            "state": result.state,
            "checked": result.checked,
            "violations": result.violations,
            "seconds": result.seconds,
            "sample": json.dumps(result.sample, ensure_ascii=False),
            "sql": result.sql,
            "error": result.error,
            "run": run,
            "scope": result.scope,
            "judged_by": result.judged_by,
            "because": result.because,
            "judged_at": now,
        }
        for result in results
    ]
