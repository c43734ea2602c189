"""What both engines share: they make each relation once, and give every rule an outcome, whatever it raises."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from rivermeet.expectations.invariant import Invariant, find_relation, for_keys
from rivermeet.expectations.results import Engine, InvariantResult, Judged, Relation
from rivermeet.expectations.rules.derived import derive
from rivermeet.expectations.rules.record_sql import without_marks
from rivermeet.pipelines import Node


class Judge(ABC):
    """An engine that evaluates rules."""

    def evaluate(
        self, node: Node, rules: Sequence[Invariant], judged: Judged, sample: int = 20
    ) -> list[InvariantResult]:
        """Judge a node; one result for each rule, in their order, with at most ``sample`` of its bad rows.

        A rule whose query fails, or whose relation cannot be had, is "not evaluated". This does not count as a pass;
        the others are still evaluated.
        """
        if not rules:
            return []
        with self._open(node, judged) as evaluation:
            return [evaluation.result(rule, sample) for rule in rules]

    @abstractmethod
    @contextmanager
    def _open(self, node: Node, judged: Judged) -> Iterator[Evaluation]: ...


class Found(NamedTuple):
    """Some bad rows in JSON, at most one more than the sample, how many there are, and the query that finds them."""

    rows: Sequence[str]
    violations: int
    sql: str


class Evaluation(ABC):
    """Relations as an engine has them; one that cannot be made fails for every rule that names it."""

    engine: Engine

    def __init__(self, node: Node, judged: Judged) -> None:
        self.node, self.judged = node, judged
        self._made: dict[str, Any] = {}

    @abstractmethod
    def _add_given(self, name: str, relation: Relation) -> Any: ...

    @abstractmethod
    def _add_derived(self, name: str, query: str) -> Any: ...

    @abstractmethod
    def _find(self, query: str, sample: int) -> Found: ...

    def _count_checked(self, about: str) -> int | None:
        return self.judged.checked.get(about)

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            try:
                self._made[name] = self._make(name)
            except Exception as error:  # whatever a reader of tables may raise
                self._made[name] = error
        made = self._made[name]
        if isinstance(made, Exception):
            raise made
        return made

    def _make(self, name: str) -> Any:
        if (query := derive(self.node).get(name)) is not None:
            return self._add_derived(name, query(self.node))
        if name not in self.judged.relations:
            raise LookupError(f"no relation '{name}' was given")
        return self._add_given(name, self.judged.relations[name]())

    def result(self, invariant: Invariant, sample: int) -> InvariantResult:
        """The outcome of a rule; at most ``sample`` bad rows are kept."""
        start, query, about = time.monotonic(), "", ""
        found, error = Found((), 0, ""), None
        try:
            query = without_marks(invariant.violations(self.node))
            about = find_relation(query) or ""
            found = self._find(for_keys(query, "touched" in self.judged.relations), sample)
            checked = self._count_checked(about)
        except Exception as raised:  # what can fail here has no narrower common class
            error, checked = f"{type(raised).__name__}: {raised}"[:2000], self.judged.checked.get(about)
        # A folded table is there as a whole, unless some keys are named.
        is_whole = about == "table" and "touched" not in self.judged.relations
        return InvariantResult(
            invariant=invariant,
            checked=checked,
            violations=None if error else found.violations,
            sample=[_texts(row) for row in found.rows[:sample]],
            sql=found.sql or query,
            seconds=time.monotonic() - start,
            error=error,
            scope="whole" if is_whole else self.judged.scope,
            judged_by=self.engine,
        )


def _texts(row: str) -> dict[str, str]:
    """A row in JSON as texts: a value that is not text stays JSON."""
    return {
        column: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for column, value in json.loads(row).items()
    }
