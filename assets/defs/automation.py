"""Nodes that follow their inputs, the other way to run a pipeline than its schedule; and when a node is stale.

A node is requested when an input has a new epoch that came without a run of this node, nothing of it runs, nothing that
it reads is being written, and no blocking check of an input failed. What is made of it is requested in the same run. A
run that failed is not repeated before there is more news. A source is asked to look for files every 15 minutes, alone:
where it finds none, that is all.

    orders: a new file      →  orders                       looked, and has epoch 7
    orders: epoch 7         →  settled, named, …            one run of all nodes below

The sensor of each pipeline is stopped until it is wanted, as the schedule is.

A node is stale after what its pipeline declares, and what it and all above it wait: a left row without a partner leaves
after the window and its grace, and what is made of it no sooner.

    departures, arrivals                             freshness of the pipeline        1 d
    trips = departures ⋈ arrivals, 24 h + 48 h       1 d + 72 h                       4 d
    what is joined with trips                        1 d + 72 h + what it waits itself

Held by ``tests/assets/defs/test_automation.py`` and ``tests/assets/defs/test_freshness.py``.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

import dagster as dg

from rivermeet.assets.defs.keys import assets_of, keys_of
from rivermeet.pipelines import Node, Pipeline

EVERY_15_MINUTES = "*/15 * * * *"
WHOLE = "rivermeet/whole"
"""Tag of a run of a whole pipeline: such a run names no assets, and so does not show Dagster what it brought along."""


def on_new_epoch(node: Node) -> dg.AutomationCondition[Any]:
    """When the node's changelog is requested; its table is `with_its_changelog`."""
    condition = dg.AutomationCondition
    if node.operation is None:
        return (condition.on_cron(EVERY_15_MINUTES) & ~condition.in_progress()).with_label("look_for_files")
    # A run that wrote the input and then this node has read it; one that overlaps with this node's may have not.
    together = condition.executed_with_root_target() | condition.executed_with_tags(tag_keys={WHOLE})
    news = condition.any_deps_match(condition.data_version_changed() & ~together)
    # A source that is asked to look may find nothing, and its news comes as an epoch. Only inputs are named, not all
    # sources of the pipeline: a thousand such conditions are tens of MB (tests/assets/defs/test_many_nodes.py).
    above = condition.any_deps_match(condition.will_be_requested()).ignore(dg.AssetSelection.assets(*_sources(node)))
    broken = condition.any_deps_match(condition.any_checks_match(condition.check_failed(), blocking_only=True))
    return (
        (news.with_label("an_input_has_a_new_epoch") | above.with_label("an_input_is_asked_for")).since(
            condition.newly_requested()
        )
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
        & ~broken.with_label("a_blocking_check_of_an_input_failed")
    ).with_label("on_new_epoch")


def _sources(node: Node) -> list[dg.AssetKey]:
    if node.source is not None:
        return keys_of(node)
    inputs = node.operation.inputs.values() if node.operation else ()
    return [key for one in inputs if one.source or not one.is_stored for key in _sources(one)]


def with_its_changelog() -> dg.AutomationCondition[Any]:
    """When a folded table is requested: both are committed together, so never alone."""
    condition = dg.AutomationCondition
    return condition.any_deps_match(condition.will_be_requested()).with_label("with_its_changelog")


def on_new_epoch_sensor(pipeline: Pipeline) -> dg.AutomationConditionSensorDefinition:
    """Evaluates the conditions of one pipeline, once it is started."""
    return dg.AutomationConditionSensorDefinition(
        name=f"{pipeline.name}_on_new_epoch",
        target=assets_of(pipeline),
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Runs each node when an input has a new epoch; instead of the schedule.",
    )


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
