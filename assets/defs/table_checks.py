"""Freshness of what is read of a table, as a check: a source may be run every minute, and yet stand still.

| PostgreSQL's or Delta's table | freshness 30 min | the check ``table_is_fresh`` |
|---|---|---|
| was read to its end, last month | | holds: nothing is missing |
| got a change 10 min ago that was not read | | holds |
| the same, 40 min ago | | fails, as a warning |
| got nothing but compaction since | | holds: no row has changed |
| lost its slot, or versions that were not read; cannot be asked; was never read | | fails, as a warning |

The time counts from the first change that was not read, by the clock of its commit. Held by
``tests/assets/defs/test_table_checks.py``.
"""

import time
from typing import TYPE_CHECKING

import dagster as dg

from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.resource import PlatformResource
from rivermeet.pipelines import DeltaTable, Node, Postgres

if TYPE_CHECKING:
    from rivermeet.assets.epoch.platform import Platform, Unread

NAME = "table_is_fresh"


def reads_table(node: Node) -> bool:
    """Whether a node is a source of a table, of PostgreSQL or Delta."""
    return node.source is not None and isinstance(node.source.reads, Postgres | DeltaTable)


def table_check(node: Node) -> dg.AssetChecksDefinition:
    """The check of one source."""
    key, freshness = changelog_key(node), node.pipeline.freshness

    @dg.asset_check(
        asset=key,
        name=NAME,
        description=f"No change of the table has been there for more than {freshness // 1000} s and was not read.",
    )
    def is_fresh(rivermeet: PlatformResource) -> dg.AssetCheckResult:
        return judged(rivermeet.platform, node)

    return is_fresh


def judged(platform: "Platform", node: Node) -> dg.AssetCheckResult:
    """Ask the table, and judge what was not read of it."""
    from rivermeet.infra.epochs.refusal import EpochRefusedError
    from rivermeet.infra.settings import SettingsError

    try:
        found = platform.unread(node)
    except (EpochRefusedError, SettingsError) as refusal:
        return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=str(refusal))
    return verdict(found, node.pipeline.freshness, time.time() * 1000)


def verdict(found: "Unread | None", freshness: int, now_ms: float) -> dg.AssetCheckResult:
    """Judge what was not read of a table; ``freshness`` in ms."""
    if found is None:
        nothing = "Nothing was read of the table yet."
        return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=nothing)
    seconds = 0.0 if found.since is None else max(now_ms - found.since, 0) / 1000
    return dg.AssetCheckResult(
        passed=seconds * 1000 <= freshness,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{found.amount:,} {found.unit} and {seconds:,.1f} s behind.",
        metadata={"lag_seconds": seconds, f"lag_{found.unit}": found.amount},
    )
