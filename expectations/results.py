"""What is judged, and what an evaluation found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from expectations.invariant import Invariant, Scope
from expectations.key_share import KeyShare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

State = Literal["passed", "violated", "not evaluated"]


@dataclass(frozen=True)
class Relation:
    """Rows that queries read, and an SQL subquery (in parentheses) that gives a user the same."""

    frame: DataFrame
    sql: str


def asked(spark: SparkSession, query: str, relations: Mapping[str, Relation]) -> DataFrame:
    """Rows of a query over relations in braces; what is cached of them stays cached.

    Spark names each frame by a temporary view, and dropping a view uncaches its plan. Behind a filter of its own the
    view's plan is not the cached one (``tests/expectations/test_evaluate.py``).
    """
    from pyspark.sql import functions as F

    frames: dict[str, Any] = {name: relation.frame.where(F.lit(True)) for name, relation in relations.items()}
    return spark.sql(query, **frames)


@dataclass(frozen=True)
class Judged:
    """What the relations of `expectations.invariant` are for one evaluation.

    Attributes
    ----------
    relations
        Name to a function that makes the relation; called once, and only if a query names it.
    checked
        Rows per relation, where the caller knows them.
    scope
        Whether the relations have what one epoch touches, or everything.
    keep
        The same rows, computed once: for what is derived of relations, and read by several queries.
    share
        Keys for which rules derive rows once more; None: all.
    """

    relations: Mapping[str, Callable[[], Relation]]
    checked: Mapping[str, int | None] = field(default_factory=dict)
    scope: Scope = "epoch"
    keep: Callable[[DataFrame], DataFrame] = lambda frame: frame
    share: KeyShare | None = None


@dataclass(frozen=True)
class InvariantResult:
    """What an evaluation found.

    Attributes
    ----------
    checked
        Rows that were judged, where known.
    violations
        Bad rows; None where it could not be evaluated.
    sample
        Some of them, every value as text (JSON where it is no text).
    sql
        The query, with each relation's own SQL in its place: it runs unchanged.
    seconds
        The invariant's even share of the evaluation, which runs as one.
    error
        Why it could not be evaluated.
    scope
        Whether one epoch was judged, or everything that there is.
    share
        Keys that were judged; None: all. How many rows they have is not counted.
    """

    invariant: Invariant
    checked: int | None
    violations: int | None
    sample: list[dict[str, str]]
    sql: str
    seconds: float
    error: str | None = None
    scope: Scope = "epoch"
    share: KeyShare | None = None

    @property
    def state(self) -> State:
        """``passed``, ``violated``, or ``not evaluated``, which is neither."""
        if self.error is not None or self.violations is None:
            return "not evaluated"
        return "violated" if self.violations > self.allowed else "passed"

    @property
    def allowed(self) -> int:
        """How many of the checked rows may be bad."""
        return int(self.invariant.tolerated * (self.checked or 0))

    @property
    def passed(self) -> bool:
        """Whether it was evaluated and nothing violates it."""
        return self.state == "passed"
