"""Freshness of what is read of a topic, as a check: a source may be run every minute, and yet stand still.

| the topic | freshness 30 min | the check ``topic_is_fresh`` |
|---|---|---|
| was read to its end | | holds, however old its last record is: nothing is missing |
| has a record that is 10 min younger than all that was read | | holds |
| the same, 40 min | | fails, as a warning |
| an open transaction has held back records for 40 min since the newest one that was read | | fails, as a warning |
| cannot be asked | | fails, as a warning |

The node's freshness policy counts epochs; this counts records. Held by ``tests/assets/defs/test_topic_checks.py``.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.resource import PlatformResource
from rivermeet.pipelines import Kafka, Node

if TYPE_CHECKING:
    from rivermeet.infra.kafka.lag import PartitionLag

NAME = "topic_is_fresh"


def reads_topic(node: Node) -> bool:
    """Whether a node is a source of a topic."""
    return node.source is not None and isinstance(node.source.reads, Kafka)


def topic_check(node: Node) -> dg.AssetChecksDefinition:
    """The check of one source."""
    key, freshness = changelog_key(node), node.pipeline.freshness

    @dg.asset_check(
        asset=key,
        name=NAME,
        description=f"What was read of the topic is at most {freshness // 1000} s behind its newest record.",
    )
    def is_fresh(rivermeet: PlatformResource) -> dg.AssetCheckResult:
        from rivermeet.infra.epochs.refusal import EpochRefusedError
        from rivermeet.infra.settings import SettingsError

        try:
            lag = rivermeet.platform.topic_lag(node)
        except (EpochRefusedError, SettingsError) as refusal:
            return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=str(refusal))
        return verdict(lag, freshness, time.time() * 1000)

    return is_fresh


def verdict(lag: "Sequence[PartitionLag]", freshness: int, now_ms: float) -> dg.AssetCheckResult:
    """Judge the lag of a topic's partitions; ``freshness`` in ms."""
    late = {one.partition: _behind(one, now_ms) for one in lag}
    known = [seconds for seconds in late.values() if seconds is not None]
    seconds = max(known, default=0.0)
    passed = len(known) == len(late) and seconds * 1000 <= freshness
    offsets, held = sum(one.behind for one in lag), sum(one.held_back for one in lag)
    what = f"{offsets:,} offsets and {seconds:,.1f} s behind" if passed or known else f"{offsets:,} offsets behind"
    unread = [p for p, found in late.items() if found is None]
    nothing = f"; nothing was read of partitions {', '.join(map(str, unread))}" if unread else ""
    return dg.AssetCheckResult(
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{what}, {held:,} held back by open transactions{nothing}.",
        metadata={"lag_seconds": seconds, "lag_offsets": offsets, "lag_held_back": held},
    )


def _behind(one: "PartitionLag", now_ms: float) -> float | None:
    """Seconds that a partition is behind; where records are held back, since the newest one that was read."""
    if one.held_back and not one.behind:
        return one.age(now_ms)
    return one.seconds
