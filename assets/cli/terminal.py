"""The platform as the commands use it: progress goes to whoever sits at the terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from infra.printable import printable

if TYPE_CHECKING:
    from assets.epoch.platform import Platform


def platform_here() -> Platform:
    """A platform by the environment's settings."""
    from assets.epoch.platform import Platform
    from infra.settings import Settings

    return Platform(Settings.from_env(), say=_progress())


def echo(text: str = "", err: bool = False) -> None:
    """Print lines of ours; what data in them would do to the terminal, or to another program's lines, is escaped."""
    click.echo(printable(text, keep="\n"), err=err)


def _progress():
    # Dagster captures a step's output for its own log; progress is for whoever sits at the terminal.
    try:
        out = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    except OSError:
        return echo  # No terminal and no file: run from Python, as tests do.

    def say(line: str) -> None:
        print(printable(line, keep="\n"), file=out)

    return say
