"""`rivermeet engine`: start, stop and look at the warm engine."""

from __future__ import annotations

import time

import click

from rivermeet.assets.cli.terminal import echo
from rivermeet.infra.settings import Settings


@click.group()
def engine() -> None:
    """Start, stop and show the warm Spark engine."""


@engine.command()
def start() -> None:
    """Start the engine now, so that the first run need not wait."""
    from rivermeet.infra.engine import warm

    state = warm.start(Settings.from_env())
    echo(f"engine runs: pid {state.pid}, port {state.port}")


@engine.command()
def stop() -> None:
    """Stop the engine, even if it is in use."""
    from rivermeet.infra.engine import warm

    echo("engine stopped" if warm.stop(Settings.from_env()) else "no engine runs")


@engine.command()
def status() -> None:
    """Show whether the engine runs, where, since when, its memory and its cache."""
    from rivermeet.infra.engine import warm

    settings = Settings.from_env()
    now = warm.status(settings)
    if now.state is None:
        echo("not running (starts on first use)")
        return
    clients = "in use" if now.in_use else f"idle for {_span(now.idle_seconds)}"
    echo(
        f"{'running' if now.answers else 'running, but does not answer: `rivermeet engine stop` ends it'}\n"
        f"  port    {now.state.port} on 127.0.0.1\n"
        f"  pid     {now.state.pid} (JVM {now.state.jvm_pid})\n"
        f"  uptime  {_span(time.time() - now.state.started)}\n"
        f"  clients {clients}; stops after {settings.engine_idle_minutes:g} min idle\n"
        f"  memory  {now.memory_mb} MB resident, heap up to {settings.engine_memory}\n"
        f"  cache   {now.cache}\n"
        f"  jobs    {now.jobs:,} since its start"
    )
    if now.heap is not None:
        what = now.heap.sentence if now.heap.is_full else f"{now.heap.collecting:.0%} of the last minute collected"
        echo(f"  garbage {what}")


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
