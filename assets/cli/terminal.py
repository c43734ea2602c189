"""The project as the commands use it: progress goes to the terminal, and errors that a user can act on are one line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from rivermeet.assets.project import Project
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.printable import printable
from rivermeet.infra.settings import Settings
from rivermeet.pipelines.errors import RivermeetError

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


_DISK = {
    "full": ("No space left on device", "disk is full", "Disk quota exceeded", "File too large", "disk I/O error"),
    "read-only": ("Read-only file system", "readonly database"),
    "not ours to write": ("Permission denied", "unable to open database file"),
}
"""What the system says, and SQLite, of a disk that takes nothing more."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Show a `RivermeetError` as its sentence; all else is a bug, and keeps its traceback."""
    try:
        yield
    except RivermeetError as error:
        raise click.ClickException(printable(str(error), keep="\n")) from None
    except click.UsageError:
        raise
    except click.ClickException as error:
        raise click.ClickException(printable(error.message, keep="\n")) from None
    except Exception as error:
        sessions = sys.modules.get("rivermeet.infra.engine.session")
        why = (sessions.explain_loss(error) if sessions is not None else None) or _of_the_disk(error)
        if why is None:
            raise
        raise click.ClickException(printable(why, keep="\n")) from error


class CommandLine(click.Group):
    """Commands whose errors are in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with one_line_errors():
            return super().invoke(ctx)


def _of_the_disk(error: BaseException | None) -> str | None:
    """What to do where the disk is at fault; None where it is not."""
    while error is not None:
        if isinstance(error, OSError) or type(error).__name__ == "OperationalError":
            for what, texts in _DISK.items():
                if any(text in str(error) for text in texts):
                    where = getattr(error, "filename", None) or os.environ.get("RIVERMEET_HOME") or "the home"
                    said = getattr(error, "strerror", None) or str(error).splitlines()[0]
                    return (
                        f"{where} cannot be written, the disk is {what} ({said}): see to it, or name another folder "
                        "with RIVERMEET_HOME, and run again. What was not committed is done again"
                    )
        error = error.__cause__ or error.__context__
    return None
