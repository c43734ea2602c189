"""Spark judges: what one machine should not read, and rules that DuckDB would understand otherwise."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expectations.invariant import Invariant, for_keys, judged_relation, relations_of
from expectations.judge.duck import texts
from expectations.results import InvariantResult, Judged
from expectations.rules.derived import DERIVED
from expectations.rules.record_sql import without_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines import Node

NOTE = "/* For a session of Spark with Delta: DuckDB may understand it otherwise. */\n"


@dataclass(frozen=True)
class OnEngine:
    """The judge on Spark; ``session`` gives the session when it is first needed."""

    session: Callable[[], SparkSession]

    def evaluate(
        self, node: Node, rules: Sequence[Invariant], judged: Judged, sample: int = 20
    ) -> list[InvariantResult]:
        """Judge a node; one result for each rule, in their order."""
        if not rules:
            return []
        frames = _Frames(self.session(), node, judged)
        return [_result(frames, rule, sample) for rule in rules]


class _Frames:
    """Relations as frames, each made once; one that cannot be made fails for every rule that names it."""

    def __init__(self, spark: SparkSession, node: Node, judged: Judged) -> None:
        self.spark, self.node, self.judged = spark, node, judged
        self._made: dict[str, tuple[DataFrame, str] | Exception] = {}

    def __getitem__(self, name: str) -> tuple[DataFrame, str]:
        if name not in self._made:
            try:
                self._made[name] = self._derived(name) if name in DERIVED else self._given(name)
            except Exception as error:  # whatever a reader of tables may raise
                self._made[name] = error
        made = self._made[name]
        if isinstance(made, Exception):
            raise made
        return made

    def over(self, query: str) -> tuple[DataFrame, str]:
        """A query over relations in braces: its frame, and its text over committed tables."""
        query = for_keys(without_marks(query), "touched" in self.judged.relations)
        named = {name: self[name] for name in relations_of(query)}
        frame = _asked(self.spark, query, {name: frame for name, (frame, _) in named.items()})
        return frame, query.format(**{name: shown for name, (_, shown) in named.items()})

    def _derived(self, name: str) -> tuple[DataFrame, str]:
        frame, shown = self.over(DERIVED[name](self.node))
        return frame, f"({shown})"

    def _given(self, name: str) -> tuple[DataFrame, str]:
        if name not in self.judged.relations:
            raise LookupError(f"no relation '{name}' was given")
        relation = self.judged.relations[name]()
        parts: Mapping[str, DataFrame] = {name: part.frame(self.spark) for name, part in relation.parts.items()}
        shown = relation.sql.format(**{name: part.in_spark for name, part in relation.parts.items()})
        return _asked(self.spark, relation.sql, parts), f"({shown})"


def _asked(spark: SparkSession, query: str, named: Mapping[str, Any]) -> DataFrame:
    return spark.sql(query, **named)


_COLUMN = r"((?:\w+|`(?:[^`]|``)+`)(?:\.(?:\w+|`(?:[^`]|``)+`))*)"
_SAME = re.compile(rf"(?<![\w.`]){_COLUMN} <=> {_COLUMN}(?![\w.`(])")
_AS_TEXT = (
    "to_json(struct({} AS v), map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
)


def _compared_as_text(query: str) -> str:
    return _SAME.sub(lambda found: f"{_AS_TEXT.format(found[1])} <=> {_AS_TEXT.format(found[2])}", query)


def _violations(frames: _Frames, query: str, sample: int) -> tuple[list[str], int, str]:
    """Some bad rows in JSON, how many there are, and the query over committed tables."""
    bad, shown = frames.over(query)
    first = bad.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS row").limit(sample + 1)
    rows = [row[0] for row in first.collect()]
    return rows, len(rows) if len(rows) <= sample else bad.count(), shown


def _result(frames: _Frames, rule: Invariant, sample: int) -> InvariantResult:
    start, shown, about = time.monotonic(), "", ""
    rows: list[str] = []
    violations, error = None, None
    try:
        query = shown = without_marks(rule.violations(frames.node))
        about = judged_relation(query) or ""
        try:
            rows, violations, shown = _violations(frames, query, sample)
        except Exception as raised:
            if "INVALID_ORDERING_TYPE" not in str(raised):
                raise
            # Spark compares no MAP, at whatever depth it is.
            rows, violations, shown = _violations(frames, _compared_as_text(query), sample)
    except Exception as raised:  # all that can fail here has no narrower class in common
        error = f"{type(raised).__name__}: {raised}"[:2000]
    return InvariantResult(
        invariant=rule,
        checked=frames.judged.checked.get(about),
        violations=violations,
        sample=[texts(row) for row in rows[:sample]],
        sql=NOTE + shown,
        seconds=time.monotonic() - start,
        error=error,
        scope=frames.judged.scope_of(about),
        judged_by="spark",
    )
