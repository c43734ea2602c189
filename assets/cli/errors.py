"""Errors that a user can act on, in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import click

from rivermeet.infra.printable import printable

_DISK = {
    "full": ("No space left on device", "disk is full", "Disk quota exceeded", "File too large", "disk I/O error"),
    "read-only": ("Read-only file system", "readonly database"),
    "not ours to write": ("Permission denied", "unable to open database file"),
}
"""What the system says, and SQLite, of a disk that takes nothing more."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def one_line_errors(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Show the errors that name their own fix without a traceback."""

    @wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        from rivermeet.assets.epoch.rebuild import RebuildRefusedError
        from rivermeet.infra.engine.jars import JarsError
        from rivermeet.infra.engine.java import JavaError
        from rivermeet.infra.engine.warm import EngineError
        from rivermeet.infra.epochs.refusal import EpochRefusedError
        from rivermeet.infra.settings import SettingsError
        from rivermeet.pipelines import DeclarationError, PipelineFileError

        known = (
            EngineError,
            JarsError,
            JavaError,
            SettingsError,
            DeclarationError,
            PipelineFileError,
            EpochRefusedError,
            RebuildRefusedError,
        )
        try:
            return command(*args, **kwargs)
        except known as error:
            raise click.ClickException(printable(str(error), keep="\n")) from None
        except KeyError as error:
            # A name that is not there: the message lists the names that are.
            raise click.ClickException(printable(str(error.args[0]), keep="\n")) from None
        except click.UsageError:
            raise
        except click.ClickException as error:
            raise click.ClickException(printable(error.message, keep="\n")) from None
        except Exception as error:
            sessions = sys.modules.get("rivermeet.infra.engine.session")
            why = (sessions.lost_engine(error) if sessions is not None else None) or _of_the_disk(error)
            if why is None:
                raise
            raise click.ClickException(printable(why, keep="\n")) from error

    return run


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
