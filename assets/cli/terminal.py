"""The project as the commands use it: progress goes to the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

import click

from rivermeet.assets.project import Project
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.printable import printable
from rivermeet.infra.settings import Settings

_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity)')


def project_here(make: Callable[..., Project] = Project.find) -> Project:
    """The project of the command's context, where a test has put one; or else what ``make`` gives."""
    context = click.get_current_context(silent=True)
    given = context.find_object(Project) if context is not None else None
    return given or make(say=_progress())


def without_pipelines(say: Callable[[str], None]) -> Project:
    """The settings of where one works, which may be no project: what is committed is read without declarations."""
    settings = Settings.from_env()
    return Project(settings, Sessions(settings), say=say)


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
    # Dagster captures a step's output for its own log; progress is for the terminal.
    try:
        out = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    except OSError:
        return echo  # No terminal and no file: run from Python, as tests do.

    def say(line: str) -> None:
        print(printable(line, keep="\n"), file=out)

    return say
