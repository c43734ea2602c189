"""What explains the rows of a family: the module that it names, or the generic one."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow
from rivermeet.pipelines import Operation
from rivermeet.pipelines.family import family_of


class Explanation(Protocol):
    """What explains the rows of one family."""

    @staticmethod
    def made_of(operation: Any, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
        """The records that a row was made of."""
        ...

    @staticmethod
    def missing(operation: Any, key: Key, evidence: Evidence) -> list[Reason]:
        """Why a key has no row."""
        ...


def explanation_of(operation: Operation) -> Explanation:
    """What explains an operation's rows."""
    return cast(Explanation, import_module(family_of(operation).why))
