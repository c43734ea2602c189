"""Errors that a user can act on, in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from rivermeet.infra.printable import printable
from rivermeet.pipelines.errors import RivermeetError

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
