"""Evaluation: a node's violations, counted, sampled, and with the SQL that finds them again.

All queries of one call run as one Spark action, those of several parts too; not as two side by side, for Spark Connect
names a query's frames by views of the session, and one action drops what the other looks for. An invariant whose query
fails, or whose relation cannot be had, is "not evaluated": it is no pass, and the others are judged all the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from expectations.invariant import Invariant, judged_relation, relations_of
from expectations.results import InvariantResult, Judged, Relation, asked
from expectations.rules.derived import DERIVED
from pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["InvariantResult", "Judged", "Relation", "evaluate", "evaluate_parts"]

_IN_PARTITION = 2**33 - 1
"""Bits of ``monotonically_increasing_id`` that number a partition's rows."""


@dataclass
class _Query:
    """One invariant on its way; ``bad`` has its bad rows, ``first`` some of them as (position, row as JSON)."""

    position: int
    invariant: Invariant
    judged: Judged
    text: str = ""
    about: str = ""
    sql: str = ""
    bad: DataFrame | None = None
    first: DataFrame | None = None
    rows: list[str] = field(default_factory=list)
    violations: int | None = None
    error: str | None = None


def evaluate(
    spark: SparkSession,
    node: Node,
    invariants: Sequence[Invariant],
    judged: Judged,
    sample: int = 20,
) -> list[InvariantResult]:
    """Judge a node by invariants; one result for each, in their order.

    Parameters
    ----------
    spark
        Session that the relations' frames belong to; classic or Connect.
    sample
        At most so many bad rows are kept of each.
    """
    return evaluate_parts(spark, node, [(invariants, judged)], sample)


def evaluate_parts(
    spark: SparkSession, node: Node, parts: Sequence[tuple[Sequence[Invariant], Judged]], sample: int = 20
) -> list[InvariantResult]:
    """Judge a node by invariants, each part of them on relations of its own."""
    start = time.monotonic()
    queries: list[_Query] = []
    for invariants, judged in parts:
        relations = _Relations(spark, node, judged)
        for invariant in invariants:
            query = _Query(len(queries), invariant, judged)
            queries.append(query)
            _prepare(spark, node, query, relations, sample)
    _collect(queries)
    _count(queries, sample)
    share = (time.monotonic() - start) / max(len(queries), 1)
    return [
        InvariantResult(
            invariant=query.invariant,
            checked=query.judged.checked.get(query.about),
            violations=query.violations,
            sample=[_texts(row) for row in query.rows[:sample]],
            sql=query.sql,
            seconds=share,
            error=query.error,
            scope=query.judged.scope,
        )
        for query in queries
    ]


class _Relations:
    """Relations made once each; one that cannot be made fails for every query that names it."""

    def __init__(self, spark: SparkSession, node: Node, judged: Judged) -> None:
        self._spark, self._node, self._judged = spark, node, judged
        self._made: dict[str, Relation | Exception] = {}

    def __getitem__(self, name: str) -> Relation:
        if name not in self._made:
            self._made[name] = self._make(name)
        made = self._made[name]
        if isinstance(made, Exception):
            raise made
        return made

    def _make(self, name: str) -> Relation | Exception:
        try:
            if name in self._judged.relations:
                return self._judged.relations[name]()
            if name in DERIVED:
                return self._derived(DERIVED[name](self._node))
            return LookupError(f"no relation '{name}' was given")
        except Exception as error:  # whatever a reader of tables may raise
            return error

    def _derived(self, query: str) -> Relation:
        named = {name: self[name] for name in relations_of(query)}
        frame = asked(self._spark, query, named)
        sql = query.format(**{name: relation.sql for name, relation in named.items()})
        return Relation(self._judged.keep(frame), f"({sql})")


def _prepare(spark: SparkSession, node: Node, query: _Query, relations: _Relations, sample: int) -> None:
    from pyspark.sql import functions as F

    try:
        query.text = query.sql = query.invariant.violations(node)
        query.about = judged_relation(query.text) or ""
        named = {name: relations[name] for name in relations_of(query.text)}
        query.sql = query.text.format(**{name: relation.sql for name, relation in named.items()})
        query.bad = asked(spark, query.text, named)
        # Not LIMIT: Spark numbers each in the code that it generates, and with it all of the query would be compiled
        # anew in every epoch, and run cold.
        place = F.monotonically_increasing_id().bitwiseAND(_IN_PARTITION)
        first = query.bad.select(F.struct("*").alias("row"), place.alias("place")).where(F.col("place") <= sample)
        row = F.to_json("row", {"ignoreNullFields": "false"})
        query.first = first.select(F.lit(query.position).alias("position"), row.alias("row"))
    except Exception as error:  # all that can fail here has no narrower class in common
        query.error = _reason(error)


def _collect(queries: Sequence[_Query]) -> None:
    ready = {query.position: query for query in queries if query.first is not None}
    try:
        lines = _union([q.first for q in ready.values() if q.first is not None])
    except Exception as error:
        for query in ready.values():
            if len(ready) == 1:
                query.error = _reason(error)
            else:
                # One of them fails while it runs; alone, it fails alone.
                _collect([query])
        return
    for position, row in lines:
        ready[position].rows.append(row)
    for query in ready.values():
        query.violations = len(query.rows)


def _count(queries: Sequence[_Query], sample: int) -> None:
    """Count exactly where there are more than the sample."""
    from pyspark.sql import functions as F

    full = {query.position: query for query in queries if len(query.rows) > sample}
    bad = [(q.position, q.bad) for q in full.values() if q.bad is not None]
    counts = [rows.select(F.lit(position).alias("position")).groupBy("position").count() for position, rows in bad]
    for position, count in _union(counts):
        full[position].violations = count


def _union(frames: Sequence[DataFrame]) -> list[tuple[int, Any]]:
    from pyspark.sql import DataFrame

    lines = reduce(DataFrame.unionAll, frames).collect() if frames else []
    return [(line[0], line[1]) for line in lines]


def _texts(row: str) -> dict[str, str]:
    values = json.loads(row)
    return {
        column: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for column, value in values.items()
    }


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:2000]
