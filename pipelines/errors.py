"""One tree of errors: an error that a user can act on is a `RivermeetError`; anything else is a bug.

    raised                                      shown, in the terminal, in Dagster and in logs
    TopicMissingError("there is no topic …")    the sentence: it says what is wrong, where, and what to do
    KeyError("offset")                          class, message and traceback: somebody has to read the code

Below the root are the kinds that callers distinguish: `DeclarationError` and `OptionError` (what is declared),
`SourceError` (how a source is read), `NotFoundError` (a name), ``SettingsError``, ``EngineError``, and
``EpochRefusedError`` (nothing is committed) with ``LeaseLostError`` and those of topics, tables and sinks.
docs/reference/errors.md lists all of them by code; ``tests/errors`` has the sentences of each. Held by
``tests/project/test_errors.py``.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class RivermeetError(Exception):
    """An error that a user can act on; the message says what is wrong, where, and what to do.

    Parameters
    ----------
    message
        The sentence.
    **fields
        The things that it names, such as ``topic="orders"``, for programs, which should not parse sentences.

    Attributes
    ----------
    code : str
        The class's name without ``Error`` in lower case with hyphens: stable, and unique.
    remedy : str
        What to do about any error of this code; the message is more specific.
    is_transient : bool
        Whether it may pass by itself, so that the same run may succeed a little later: Dagster retries no other.

    Examples
    --------
    >>> error = OptionError("grace is -1 ms; make it 0 or more", grace=-1)
    >>> error.code, str(error), error.fields
    ('option', 'grace is -1 ms; make it 0 or more', {'grace': -1})
    """

    code: ClassVar[str] = "rivermeet"
    remedy: ClassVar[str] = "Do what the message says."
    is_transient: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.code = _CAPITAL.sub("-", cls.__name__.lstrip("_").removesuffix("Error")).lower()

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    def within(self, **fields: object) -> None:
        """Add fields that a caller knows; those of the message take precedence."""
        self.fields = fields | self.fields

    def __str__(self) -> str:
        # Not the `__str__` of a second base class: KeyError would quote the sentence.
        return self.message


class DeclarationError(RivermeetError, ValueError):
    """A declaration that cannot mean anything; says which pipeline, which node, and what would do."""

    remedy = "Change the declaration as the message says; it lists the choices."

    def __init__(self, pipeline: str, node: str, problem: str) -> None:
        super().__init__(
            f"pipeline '{pipeline}', node '{node}': {problem}", pipeline=pipeline, node=node, problem=problem
        )
        self.problem = problem


class OptionError(RivermeetError, ValueError):
    """A value of a declaration, such as a window, a type or a format, that cannot mean anything."""

    remedy = "Change the value as the message says; it lists the choices."


class SourceError(RivermeetError, ValueError):
    """A source cannot be read as it is declared: an expression, a file or a path of it is wrong."""

    remedy = "Change the declaration of the source, or put back what the message names."


class NotFoundError(RivermeetError, KeyError):
    """A pipeline, a node, a feed or a kind of source of that name does not exist; the message lists those that do."""

    remedy = "Use one of the names that the message lists."


def list_choices(choices: object) -> str:
    """Choices as an error message lists them: ``'a', 'b'``."""
    return ", ".join(repr(choice) for choice in choices)  # pyright: ignore[reportGeneralTypeIssues]
