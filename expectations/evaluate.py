"""Evaluation: a node's violations, counted, sampled, and with the SQL that finds them again.

All queries of one call run as one Spark action, those of several parts too; not as two side by side, for Spark Connect
names a query's frames by views of the session, and one action drops what the other looks for. An invariant whose query
fails, or whose relation cannot be had, is "not evaluated": it is no pass, and the others are judged all the same.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expectations.invariant import Invariant, judged_relation, relations_of, renamed
from expectations.key_share import KeyShare
from expectations.results import InvariantResult, Judged, Relation, asked
from expectations.rules.derived import DERIVED
from pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["InvariantResult", "Judged", "Relation", "evaluate", "evaluate_parts"]

_IN_PARTITION = 2**33 - 1
"""Bits of ``monotonically_increasing_id`` that number a partition's rows."""


_COLUMN = r"((?:\w+|`(?:[^`]|``)+`)(?:\.(?:\w+|`(?:[^`]|``)+`))*)"
_SAME = re.compile(rf"(?<![\w.`]){_COLUMN} <=> {_COLUMN}(?![\w.`(])")
_AS_TEXT = (
    "to_json(struct({} AS v), map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
)


@dataclass
class _Query:
    """One invariant on its way: its text over relations, ``named``, and some of its bad rows as JSON."""

    position: int
    part: int
    invariant: Invariant
    judged: Judged
    text: str = ""
    about: str = ""
    sql: str = ""
    named: Mapping[str, Relation] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    violations: int | None = None
    error: str | None = None

    @property
    def share(self) -> KeyShare | None:
        """Keys that it is about; None: all."""
        return self.judged.share if self.invariant.of_share is not None else None


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
    for part, (invariants, judged) in enumerate(parts):
        relations = _Relations(spark, node, judged)
        for invariant in invariants:
            query = _Query(len(queries), part, invariant, judged)
            queries.append(query)
            _prepare(node, query, relations)
    _collect(spark, [query for query in queries if query.error is None], sample)
    _count(spark, queries, sample)
    share = (time.monotonic() - start) / max(len(queries), 1)
    return [
        InvariantResult(
            invariant=query.invariant,
            checked=None if query.share else query.judged.checked.get(query.about),
            violations=query.violations,
            sample=[_texts(row) for row in query.rows[:sample]],
            sql=query.sql,
            seconds=share,
            error=query.error,
            scope=query.judged.scope,
            share=query.share,
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
                return self._derived(DERIVED[name](self._node, self._judged.share))
            return LookupError(f"no relation '{name}' was given")
        except Exception as error:  # whatever a reader of tables may raise
            return error

    def _derived(self, query: str) -> Relation:
        named = {name: self[name] for name in relations_of(query)}
        frame = asked(self._spark, query, named)
        sql = query.format(**{name: relation.sql for name, relation in named.items()})
        return Relation(self._judged.keep(frame), f"({sql})")


def _prepare(node: Node, query: _Query, relations: _Relations) -> None:
    try:
        query.text = query.sql = query.invariant.query(node, query.share)
        query.about = judged_relation(query.text) or ""
        query.named = {name: relations[name] for name in relations_of(query.text)}
        query.sql = query.text.format(**{name: relation.sql for name, relation in query.named.items()})
    except Exception as error:  # all that can fail here has no narrower class in common
        query.error = _reason(error)


def _collect(spark: SparkSession, queries: Sequence[_Query], sample: int) -> None:
    # Not LIMIT: Spark numbers each in the code that it generates, and with it all of the query would be compiled
    # anew in every epoch, and run cold.
    first = (
        "SELECT {position} AS position, to_json(row, map('ignoreNullFields', 'false')) AS row FROM "
        f"(SELECT struct(*) AS row, monotonically_increasing_id() & {_IN_PARTITION} AS place FROM ({{text}}\n)) "
        f"WHERE place <= {sample}"
    )
    try:
        lines = _union(spark, first, queries)
    except Exception as error:
        if len(queries) == 1:
            if _compares_as_text(queries[0], error):
                _collect(spark, queries, sample)
            else:
                queries[0].error = _reason(error)
            return
        # One that is no query fails all; one that fails while it runs fails alone only where it is alone.
        sound = [query for query in queries if _is_sound(spark, query)]
        for part in [sound] if len(sound) < len(queries) else [[query] for query in sound]:
            _collect(spark, part, sample)
        return
    found = {query.position: query for query in queries}
    for position, row in lines:
        found[position].rows.append(row)
    for query in queries:
        query.violations = len(query.rows)


def _is_sound(spark: SparkSession, query: _Query) -> bool:
    """Whether Spark takes the invariant's text for a query; the reason stays with it where not."""
    try:
        asked(spark, query.text, query.named)
    except Exception as error:
        if _compares_as_text(query, error):
            return _is_sound(spark, query)
        query.error = _reason(error)
        return False
    return True


def _compares_as_text(query: _Query, error: Exception) -> bool:
    """Let a query compare columns as JSON, where it failed for Spark compares no MAP, at whatever depth it is."""
    text = _SAME.sub(lambda found: f"{_AS_TEXT.format(found[1])} <=> {_AS_TEXT.format(found[2])}", query.text)
    if "INVALID_ORDERING_TYPE" not in str(error) or text == query.text:
        return False
    query.text = text
    query.sql = text.format(**{name: relation.sql for name, relation in query.named.items()})
    return True


def _count(spark: SparkSession, queries: Sequence[_Query], sample: int) -> None:
    """Count exactly where there are more than the sample."""
    full = {query.position: query for query in queries if len(query.rows) > sample}
    for position, count in _union(spark, "SELECT {position}, count(*) FROM ({text}\n)", list(full.values())):
        full[position].violations = count


def _union(spark: SparkSession, select: str, queries: Sequence[_Query]) -> list[tuple[int, Any]]:
    """Two columns for each query: ``select`` with its ``{position}`` and its ``{text}``, all in one action."""
    # Asked one by one, each query was analysed in two requests of its own: a tenth of the time in which a small
    # epoch is judged.
    named: dict[str, Relation] = {}
    parts: list[str] = []
    for query in queries:
        # The queries of two parts mean different rows by one name.
        names = {name: f"{name}_{query.part}" for name in query.named}
        named |= {names[name]: relation for name, relation in query.named.items()}
        parts.append(select.format(position=query.position, text=renamed(query.text, names)))
    lines = asked(spark, " UNION ALL ".join(parts), named).collect() if parts else []
    return [(line[0], line[1]) for line in lines]


def _texts(row: str) -> dict[str, str]:
    values = json.loads(row)
    return {
        column: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for column, value in values.items()
    }


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:2000]
