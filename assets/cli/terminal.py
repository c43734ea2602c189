"""The platform as the commands use it: progress goes to whoever sits at the terminal."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import click

from rivermeet.infra.printable import printable

if TYPE_CHECKING:
    from rivermeet.assets.epoch.platform import Platform


_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity)')


def platform_here() -> Platform:
    """A platform by the environment's settings."""
    from rivermeet.assets.epoch.platform import Platform
    from rivermeet.infra.settings import Settings

    return Platform(Settings.from_env(), say=_progress())


def echo(text: str = "", err: bool = False) -> None:
    """Print lines of ours; what data in them would do to the terminal, or to another program's lines, is escaped."""
    click.echo(printable(text, keep="\n"), err=err)


def standard_json(text: str) -> str:
    """What Python or DuckDB wrote as JSON, with NaN and infinities as text: JSON has no number for them.

    Examples
    --------
    >>> standard_json('{"NaN": [NaN, -Infinity]}')
    '{"NaN": ["NaN", "-Infinity"]}'
    """
    return _NO_NUMBER.sub(lambda found: found[0] if found[0][0] == '"' else f'"{found[0]}"', text)


def _progress():
    # Dagster captures a step's output for its own log; progress is for whoever sits at the terminal.
    try:
        out = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    except OSError:
        return echo  # No terminal and no file: run from Python, as tests do.

    def say(line: str) -> None:
        print(printable(line, keep="\n"), file=out)

    return say
