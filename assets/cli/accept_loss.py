"""`rivermeet accept-loss`: go on with a topic, or a Delta table, of which records are gone that were not read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from rivermeet.assets.cli.errors import one_line_errors
from rivermeet.assets.cli.terminal import echo, platform_here

if TYPE_CHECKING:
    from rivermeet.assets.epoch.platform import Platform
    from rivermeet.infra.epochs.plan import VersionRange
    from rivermeet.pipelines import Node


@click.command("accept-loss")
@click.argument("pipeline")
@click.argument("source")
@one_line_errors
def accept_loss(pipeline: str, source: str) -> None:
    """Read what the topic or table of SOURCE has now, although what came before was removed, or it is another one.

    The records so far stay as they are, and the epoch log keeps which offsets or versions were lost. Where nothing is
    lost this is a run like any other.
    """
    from rivermeet.pipelines import load

    echo(accepted(platform_here(), load(pipeline).node(source)))


def accepted(platform: Platform, node: Node) -> str:
    """Run one epoch of a source that passes over what is gone; a line that says what was lost."""
    from rivermeet.assets.epoch.run import run_node
    from rivermeet.infra.sources.delta.ingest import DeltaStep
    from rivermeet.infra.sources.kafka.ingest import TopicStep

    step = platform.source_step(node) if node.source is not None else None
    if not isinstance(step, TopicStep | DeltaStep):
        why = "reads no topic and no Delta table, so that none can lose records"
        raise click.ClickException(f"'{node.pipeline.name}.{node.name}' {why}")
    result = run_node(platform.runner(node.pipeline), replace(step, accept_loss=True), str(uuid4())).result
    if result is not None and result.plan.delta is not None:
        return f"{node.name}: {result.rows:,} records read of {result.plan.delta.shown}; {_lost(result.plan.delta)}"
    if result is None or result.plan.topic is None:
        return f"{node.name}: nothing is lost, and nothing is new"
    found = result.plan.topic
    gone = "; ".join(f"partition {p}, offsets {start} to {end - 1}" for p, (start, end) in found.lost.items())
    start = ", ".join(f"{p}: {first}" for p, (first, _) in found.ranges.items())
    lost = f"lost: {gone}" if gone else "no offset of this topic is lost"
    return f"{node.name}: {result.rows:,} records read from offsets {start}; {lost}"


def _lost(found: VersionRange) -> str:
    parts = [f"lost: versions {found.lost[0]} to {found.lost[1]}"] if found.lost is not None else []
    parts += [f"passed over: versions {', '.join(map(str, found.passed))}"] if found.passed else []
    return "; ".join(parts) or "no version of this table is lost"
