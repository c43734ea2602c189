"""What both engines do alike: they make relations once each, and give a rule an outcome, whatever it raises."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from rivermeet.expectations.invariant import Invariant, for_keys, judged_relation
from rivermeet.expectations.results import Engine, InvariantResult, Judged, Relation
from rivermeet.expectations.rules.derived import DERIVED
from rivermeet.expectations.rules.record_sql import without_marks

if TYPE_CHECKING:
    from rivermeet.pipelines import Node

Made = TypeVar("Made")


class Found(NamedTuple):
    """Some bad rows in JSON, one more than the sample at most, how many there are, and the query that finds them."""

    rows: Sequence[str]
    violations: int
    sql: str


class Evaluation(ABC, Generic[Made]):
    """Relations as an engine has them; one that cannot be made fails for every rule that names it."""

    engine: Engine

    def __init__(self, node: Node, judged: Judged) -> None:
        self.node, self.judged = node, judged
        self._made: dict[str, Made | Exception] = {}

    @abstractmethod
    def given(self, name: str, relation: Relation) -> Made:
        """A relation that was given."""

    @abstractmethod
    def derived(self, name: str, query: str) -> Made:
        """A relation that is made of others."""

    @abstractmethod
    def find(self, query: str, sample: int) -> Found:
        """What a query over relations in braces gives."""

    def checked(self, about: str) -> int | None:
        """Rows of a relation that is judged, where they are known."""
        return self.judged.checked.get(about)

    def __getitem__(self, name: str) -> Made:
        if name not in self._made:
            try:
                self._made[name] = self._make(name)
            except Exception as error:  # whatever a reader of tables may raise
                self._made[name] = error
        made = self._made[name]
        if isinstance(made, Exception):
            raise made
        return made

    def _make(self, name: str) -> Made:
        if name in DERIVED:
            return self.derived(name, DERIVED[name](self.node))
        if name not in self.judged.relations:
            raise LookupError(f"no relation '{name}' was given")
        return self.given(name, self.judged.relations[name]())

    def result(self, rule: Invariant, sample: int) -> InvariantResult:
        """What becomes of a rule; at most ``sample`` bad rows are kept."""
        start, query, about = time.monotonic(), "", ""
        found, error, checked = None, None, None
        try:
            query = without_marks(rule.violations(self.node))
            about = judged_relation(query) or ""
            found = self.find(for_keys(query, "touched" in self.judged.relations), sample)
            checked = self.checked(about)
        except Exception as raised:  # all that can fail here has no narrower class in common
            error, checked = f"{type(raised).__name__}: {raised}"[:2000], self.judged.checked.get(about)
        return InvariantResult(
            invariant=rule,
            checked=checked,
            violations=None if found is None else found.violations,
            sample=[] if found is None else [_texts(row) for row in found.rows[:sample]],
            sql=query if found is None else found.sql,
            seconds=time.monotonic() - start,
            error=error,
            scope=self.judged.scope_of(about),
            judged_by=self.engine,
        )


def _texts(row: str) -> dict[str, str]:
    """A row in JSON as texts: a value that is no text stays JSON."""
    return {
        column: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for column, value in json.loads(row).items()
    }
