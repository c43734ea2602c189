"""Errors that a user can act on, in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import click

_P = ParamSpec("_P")
_R = TypeVar("_R")


def one_line_errors(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Show the errors that name their own fix without a traceback."""

    @wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        from assets.epoch.rebuild import RebuildRefusedError
        from infra.engine.jars import JarsError
        from infra.engine.java import JavaError
        from infra.engine.warm import EngineError
        from infra.epochs.refusal import EpochRefusedError
        from infra.settings import SettingsError
        from pipelines import DeclarationError

        known = (
            EngineError,
            JarsError,
            JavaError,
            SettingsError,
            DeclarationError,
            EpochRefusedError,
            RebuildRefusedError,
        )
        try:
            return command(*args, **kwargs)
        except known as error:
            raise click.ClickException(str(error)) from None
        except KeyError as error:
            # A name that is not there: the message lists the names that are.
            raise click.ClickException(str(error.args[0])) from None
        except Exception as error:
            sessions = sys.modules.get("infra.engine.session")
            lost = sessions.lost_engine() if sessions is not None else None
            if lost is None:
                raise
            raise click.ClickException(lost) from error

    return run
