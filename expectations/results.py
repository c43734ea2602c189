"""What is judged, what an evaluation found, and the rows of it that the ``quality`` table keeps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rivermeet.expectations.invariant import Invariant, Scope
from rivermeet.pipelines import Node
from rivermeet.pipelines.plural import pluralize

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

State = Literal["passed", "violated", "not evaluated"]
Engine = Literal["duckdb", "spark"]


@dataclass(frozen=True)
class Part:
    """Rows that relations are made of, such as some files of a table.

    Attributes
    ----------
    shown, in_spark
        What ``rivermeet sql``, and a session of Spark with Delta, read them by, after FROM.
    query, frame
        DuckDB's query and Spark's frame of them.
    size
        Bytes to read, where they are known.
    """

    shown: str
    in_spark: str
    query: Callable[[DuckDBPyConnection], str]
    frame: Callable[[SparkSession], DataFrame]
    size: Callable[[], int] = lambda: 0


@dataclass(frozen=True)
class Relation:
    """Rows that rules name: a query in Spark's SQL over ``parts``, which it names in braces.

    Attributes
    ----------
    key
        Columns of the part ``table`` that are the key of its rows, each quoted; empty if there is no such part.
    is_folded
        Whether the rows are a folded table's, without ``key``.
    """

    sql: str
    parts: Mapping[str, Part] = field(default_factory=dict)
    key: Sequence[str] = ()
    is_folded: bool = False

    def of_keys(self, keys: str) -> str:
        """The query of the rows whose key a subquery gives; of a folded table, of at least these.

        Readers skip what a join by ``=`` rules out by statistics. It finds no NULL, and part of a key may be NULL.
        """
        table = "{table}"
        if self.key:
            equal = " AND ".join(f"t.{column} = k.key.{column}" for column in self.key)
            # The table is in brackets, since no alias may follow the version that a reader puts there.
            missing = " OR ".join(f"{column} IS NULL" for column in self.key)
            table = f"""(SELECT t.* FROM (SELECT * FROM {{table}}) t LEFT SEMI JOIN ({keys}) k ON {equal}
  UNION ALL SELECT * FROM {{table}} WHERE {missing})"""
        rows = self.sql.replace("{table}", table)
        return rows if self.is_folded else f"SELECT * FROM ({rows}) WHERE key IN ({keys})"


@dataclass(frozen=True)
class Judged:
    """What the relations of `expectations.invariant` are for one evaluation.

    Attributes
    ----------
    relations
        Name to a function that makes the relation; called once, and only if a rule names it.
    checked
        Rows per relation, where the caller knows them.
    scope
        Whether the relations have what one epoch touches, or everything.
    """

    relations: Mapping[str, Callable[[], Relation]]
    checked: Mapping[str, int | None] = field(default_factory=dict)
    scope: Scope = "epoch"


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
        Some of them, every value as text (JSON where it is not text).
    sql
        The query over committed tables. It runs as it is in ``rivermeet sql``; one that only Spark understands says so.
    error
        Why it could not be evaluated.
    because
        Why Spark judged it; empty where DuckDB did.
    note
        A sentence about it that follows what was found.
    """

    invariant: Invariant
    checked: int | None
    violations: int | None
    sample: list[dict[str, str]]
    sql: str
    seconds: float
    error: str | None = None
    scope: Scope = "epoch"
    judged_by: Engine = "duckdb"
    because: str = ""
    note: str = ""

    @property
    def state(self) -> State:
        """``passed``, ``violated``, or ``not evaluated``, which is neither."""
        if self.error is not None or self.violations is None:
            return "not evaluated"
        allowed = int(self.invariant.tolerated * (self.checked or 0))
        return "violated" if self.violations > allowed else "passed"

    @property
    def passed(self) -> bool:
        """Whether it was evaluated and nothing violates it."""
        return self.state == "passed"

    @property
    def description(self) -> str:
        """One line, as a check shows it: the sentence, and what was found."""
        return " ".join(filter(None, (self.invariant.sentence, self._finding, self.note)))

    @property
    def _finding(self) -> str:
        if self.state == "not evaluated":
            return f"Could not be evaluated: {(self.error or 'no reason known').splitlines()[0][:200]}"
        of = "" if self.checked is None else f" in {pluralize(self.checked, 'row')}"
        if not self.violations:
            return f"No violations{of}."
        share = f" ({self.violations / self.checked:.1%})" if self.invariant.tolerated and self.checked else ""
        return f"{pluralize(self.violations, 'violation')}{of}{share}."


SCHEMA = {
    "pipeline": "string",
    "node": "string",
    "epoch": "int64",
    "invariant": "string",
    "stage": "string",
    "severity": "string",
    "blocking": "bool",
    "state": "string",
    "checked": "int64",
    "violations": "int64",
    "seconds": "double",
    "sample": "string",
    "sql": "string",
    "error": "string",
    "run": "string",
    "scope": "string",
    "judged_by": "string",
    "because": "string",
    "judged_at": "int64",
}
"""Columns of the ``quality`` table with their Arrow types: one row per node, epoch and invariant.

``sample`` is JSON, ``judged_by`` the engine, ``because`` why it is Spark, ``judged_at`` wall clock (ms).
"""
FOUND = ("state", "checked", "violations", "seconds", "sql", "error", "scope", "judged_by", "because")
"""Columns that an `InvariantResult` has as attributes."""


def history(node: Node, epoch: int, run: str, results: Sequence[InvariantResult]) -> list[dict[str, Any]]:
    """Rows of the table for one evaluation by a run; ``epoch`` is the one judged, or the last of the tables judged."""
    about = {"pipeline": node.pipeline.name, "node": node.name, "epoch": epoch, "run": run}
    about["judged_at"] = int(time.time() * 1000)
    return [
        about
        | {name: getattr(result, name) for name in FOUND}
        | {name: getattr(result.invariant, name) for name in ("stage", "severity", "blocking")}
        | {"invariant": result.invariant.id, "sample": json.dumps(result.sample, ensure_ascii=False)}
        for result in results
    ]
