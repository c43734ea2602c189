"""How long a node may be without a new epoch until Dagster shows it as stale.

A join's rows may have to wait for their window to close: a left row without a partner leaves after the window and its
grace, and what is made of it no sooner. So a node has what its pipeline declares, and what it and all above it wait:

    departures, arrivals                             freshness of the pipeline        1 d
    trips = departures ⋈ arrivals, 24 h + 48 h       1 d + 72 h                       4 d
    what is joined with trips                        1 d + 72 h + what it waits itself

Held by ``tests/assets/defs/test_freshness.py``.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache

import dagster as dg

from rivermeet.pipelines import Node


def freshness_policy(node: Node) -> dg.FreshnessPolicy:
    """The policy of all assets of a node."""
    return dg.FreshnessPolicy.time_window(timedelta(milliseconds=node.pipeline.freshness + longest_wait_ms(node)))


@cache
def longest_wait_ms(node: Node) -> int:
    """The longest that a record may wait on its way from a source to the node."""
    made = node.operation
    if made is None:
        return 0
    # An idle time without end waits for the slower input, which has a policy of its own.
    own = (made.max_task_idle_ms or 0) + made.wait_ms
    return own + max(longest_wait_ms(part) for part in made.inputs.values())
