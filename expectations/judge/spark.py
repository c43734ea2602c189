"""Spark judges: what one machine should not read, and rules that DuckDB would understand otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rivermeet.expectations.invariant import of_keys, relations_of
from rivermeet.expectations.judge.evaluation import Evaluation, Found, Judge
from rivermeet.expectations.results import Judged, Relation
from rivermeet.pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOTE = "/* For a session of Spark with Delta: DuckDB may understand it otherwise. */\n"


@dataclass(frozen=True)
class OnEngine(Judge):
    """The judge on Spark; ``session`` gives the session when it is first needed."""

    session: Callable[[], SparkSession]

    @contextmanager
    def _open(self, node: Node, judged: Judged) -> Iterator[Evaluation]:
        yield _Frames(self.session(), node, judged)


class _Frames(Evaluation):
    """Relations as frames, with their subqueries over committed tables."""

    engine = "spark"

    def __init__(self, spark: SparkSession, node: Node, judged: Judged) -> None:
        super().__init__(node, judged)
        self._spark = spark

    def _add_given(self, name: str, relation: Relation) -> tuple[DataFrame, str]:
        parts: dict[str, Any] = {name: part.frame(self._spark) for name, part in relation.parts.items()}
        shown = relation.sql.format(**{name: part.in_spark for name, part in relation.parts.items()})
        return self._spark.sql(relation.sql, **parts), f"({shown})"

    def _add_derived(self, name: str, query: str) -> tuple[DataFrame, str]:
        frame, shown = self._over(query)
        return frame, f"({shown})"

    def _find(self, query: str, sample: int) -> Found:
        try:
            return self._run(query, sample)
        except Exception as raised:
            if "INVALID_ORDERING_TYPE" not in str(raised):
                raise
            # Spark cannot compare MAPs, at any depth.
            return self._run(_compare_as_text(query), sample)

    def _run(self, query: str, sample: int) -> Found:
        bad, shown = self._over(query)
        first = bad.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS row").limit(sample + 1)
        rows = [row[0] for row in first.collect()]
        return Found(rows, len(rows) if len(rows) <= sample else bad.count(), NOTE + shown)

    def _over(self, query: str) -> tuple[DataFrame, str]:
        """A query over relations in braces: its frame, and its text over committed tables."""
        query = of_keys(query, self._rows_of_keys)
        named = {name: self[name] for name in relations_of(query)}
        frames: dict[str, Any] = {name: frame for name, (frame, _) in named.items()}
        frame = self._spark.sql(query, **frames)
        return frame, query.format(**{name: shown for name, (_, shown) in named.items()})

    def _rows_of_keys(self, name: str, keys: str) -> str:
        if self.judged.relations[name]().is_folded:
            return f"{{{name}}}"
        return f"(SELECT * FROM {{{name}}} WHERE key IN ({keys}))"


_COLUMN = r"((?:\w+|`(?:[^`]|``)+`)(?:\.(?:\w+|`(?:[^`]|``)+`))*)"
_SAME = re.compile(rf"(?<![\w.`]){_COLUMN} <=> {_COLUMN}(?![\w.`(])")
_AS_TEXT = (
    "to_json(struct({} AS v), map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
)


def _compare_as_text(query: str) -> str:
    return _SAME.sub(lambda found: f"{_AS_TEXT.format(found[1])} <=> {_AS_TEXT.format(found[2])}", query)
