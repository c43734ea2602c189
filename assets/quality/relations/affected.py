"""Relations of an epoch's inputs without what it does not affect.

    foreign-key join, 10,000 changes of a million rows     {left}: the rows that changed, or point to what changed

Held by ``tests/expectations/test_scopes.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from assets.quality.relations.inputs import InputRelations, Relations
from expectations.invariant import Invariant, packed, quoted, relations_of
from expectations.results import Relation, asked
from expectations.rules.touched import affected, needed, touched
from infra.epochs.inputs import broadcast_if_few
from pipelines import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from infra.engine.shared_frames import SharedFrames


@dataclass
class Affected:
    """What an epoch affects of its inputs.

    Attributes
    ----------
    changelog
        The epoch's own rows.
    rows
        How many these are, or the records that it read, if those are more.
    rules
        What is judged: a relation that several of them name is computed once.
    stored
        Makes the relation of the whole folded table.
    """

    spark: SparkSession
    node: Node
    inputs: InputRelations | None
    shared: SharedFrames
    changelog: Relation
    rows: int
    rules: Sequence[Invariant]
    stored: Callable[[], Relation] | None = None
    _touched: Relation | None = None

    def touched(self) -> Relation:
        """Keys that the epoch's input records could change, and those of its rows."""
        if self._touched is None:
            given = touched(self.node)
            if given is None:
                # Its own rows show all that it could change: asking for their keys costs less than a list of them.
                return self.changelog
            query = f"SELECT key FROM {{changelog}} WHERE key IS NOT NULL UNION {given}"
            named = {"changelog": self.changelog, **self._named(query, self._affected)}
            if self.stored is not None and "stored" in relations_of(query):
                named["stored"] = self.stored()
            frame = asked(self.spark, query, named)
            sql = f"({query.format(**_texts(named))})"
            self._touched = Relation(self._once("touched", frame.distinct()), sql)
        return self._touched

    @cached_property
    def _affected(self) -> Relations:
        """Relations of the inputs, but of some only the rows that the epoch affects."""
        if self.inputs is None:
            return {}
        asked_for = affected(self.node).keys() | needed(self.node).keys()
        ranges = {name: relation for name, relation in self.inputs.needed().items() if name in asked_for}
        return self._narrowed({**self.inputs.all(), **ranges}, affected(self.node))

    @cached_property
    def relations(self) -> Relations:
        """Relations of the inputs; a table's are the rows that touched keys are made of."""
        return self._narrowed(dict(self._affected), needed(self.node))

    def _narrowed(self, found: Relations, queries: Mapping[str, str]) -> Relations:
        for name, query in queries.items():
            if name in found:
                found[name] = cache(lambda name=name, query=query, seen=dict(found): self._asked(name, query, seen))
        return found

    def _named(self, query: str, relations: Relations) -> dict[str, Relation]:
        own = {"touched": self.touched, "changelog": lambda: self.changelog}
        return {n: (own.get(n) or relations[n])() for n in relations_of(query) if n in own or n in relations}

    def _asked(self, name: str, query: str, seen: Relations) -> Relation:
        named = self._named(query, seen)
        frame = asked(self.spark, query, named)
        return Relation(self._once(name, frame), f"({query.format(**_texts(named))})")

    def _once(self, name: str, frame: DataFrame) -> DataFrame:
        """A relation's rows, kept where several queries name it: to keep them costs a job."""
        return self.few(frame) if self._uses[name] > 1 else broadcast_if_few(frame, self.rows)

    @cached_property
    def _uses(self) -> Counter[str]:
        """How many queries of the node name each relation; the folded table's rows are found by touched keys."""
        own = [*affected(self.node).values(), *needed(self.node).values(), touched(self.node) or ""]
        found = Counter(["touched", *(name for query in own for name in relations_of(query))])
        for rule in self.rules:
            # A rule of a user's that is no query fails where it is judged.
            with suppress(Exception):
                found.update(relations_of(rule.violations(self.node)))
        return found

    def few(self, frame: DataFrame) -> DataFrame:
        """What the epoch has or affects, computed once: few rows beside a table's."""
        return broadcast_if_few(self.shared.keep(frame), self.rows)

    def with_keys(
        self, rows: Relation, keys: Relation, columns: Sequence[str] = (), within: str | None = None
    ) -> Relation:
        """Rows of the folded table with one of these keys; all their columns where none are named.

        Parameters
        ----------
        within
            SQL that holds for all of these rows, so that files of the table are skipped.
        """
        from pyspark.sql import functions as F

        shown = ", ".join(map(quoted, columns)) or "* EXCEPT (__key)"
        # As a column: of a struct that is written out, IN would compare the fields with so many columns.
        keyed = f"(SELECT *, {packed(self.node.key)} AS __key FROM {{rows}})"
        wanted = f"SELECT {shown} FROM {keyed} WHERE __key IN (SELECT key FROM {{keys}})"
        # The same without a query that the engine would be asked for by itself; names have their braces doubled there.
        found = rows.frame if within is None else rows.frame.where(within)
        found = found.withColumn("__key", F.expr(packed(self.node.key).format()))
        named = keys.frame.select(F.col("key").alias("__wanted"))
        frame = found.join(named, F.col("__key") == F.col("__wanted"), "left_semi")
        frame = frame.select(*(F.col(quoted(name).format()) for name in columns)) if columns else frame.drop("__key")
        return Relation(frame, f"({wanted.format(rows=rows.sql, keys=keys.sql)})")

    def was(self, old: Relation, within: str | None = None) -> Relation:
        """Key columns of the folded table's rows before the epoch, with a key of the epoch's rows."""
        return self.with_keys(old, self.changelog, list(self.node.key), within)


def _texts(named: Mapping[str, Relation]) -> dict[str, str]:
    return {name: relation.sql for name, relation in named.items()}
