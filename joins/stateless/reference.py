"""Operations of one input, and merge, record by record; a row keeps the timestamp of its record.

    filter of a stream    a record for which the condition is true
    filter of a table     a row that passes; a tombstone where one that passed does not any more
    map_values            another value; null stays null
    select_key            another key, null where any column of it is
    to_table              records with a key
    merge, to_stream      each record as it is

Source: as for the operators in this folder. Held by ``tests/testing/test_driver.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rivermeet.joins.reference.records import Asks, Join, Record, Row, key_of, no_row, places
from rivermeet.pipelines import operations as declared

Rule = Callable[[Record], list[Row]]


@dataclass(frozen=True)
class EachRecord:
    """An operation without state."""

    process: Rule


@dataclass
class TableFilter:
    """The rows of a table that pass. Of a versioned one (`history`) it is not known which row a record follows."""

    history: bool
    passed: set[Any] = field(default_factory=set[Any])

    def process(self, x: Record) -> list[Row]:
        if x.key is None:
            return no_row(x, "null-key")
        passes, passed = x.value is not None and x.found["passes"] is True, x.key in self.passed
        (self.passed.add if passes else self.passed.discard)(x.key)
        fails = "left-deleted" if x.value is None else "filtered"
        if not (passes or passed or self.history):
            return no_row(x, fails)
        return [row_of(x, value=columns_of(x) if passes else None, rule="joined" if passes else fails)]


def columns_of(x: Record) -> Any:
    """The value's columns, or None."""
    return None if x.value is None else x.value.columns


def row_of(x: Record, **other: Any) -> Row:
    """The record as a row of the result, with another key or value."""
    own = {"key": x.key, "value": columns_of(x), "timestamp": x.timestamp, "trigger": x.position, **places(x)}
    return Row(**{**own, **other})


def asks(operation: Any) -> Asks:
    """The condition, the new value, or the new key."""
    if isinstance(operation, declared.Filter):
        return {"left": {"passes": operation.where}}
    if isinstance(operation, declared.MapValues):
        return {"left": operation.select}
    if isinstance(operation, declared.SelectKey):
        return {"left": {column: made.sql for column, made in operation.key.items()}}
    return {}


def reference_of(operation: Any) -> Join:
    """The rule of a declared operation."""
    if isinstance(operation, declared.Filter) and operation.input.is_table:
        return TableFilter(getattr(operation.input, "history", None) is not None)
    return EachRecord(_rule(operation))


def _rule(operation: Any) -> Rule:
    if isinstance(operation, declared.Filter):
        return lambda x: [row_of(x)] if x.found["passes"] is True else no_row(x, "filtered")
    if isinstance(operation, declared.MapValues):
        return lambda x: [row_of(x, value=None if x.value is None else dict(x.found))]
    if isinstance(operation, declared.SelectKey):
        return lambda x: [row_of(x, key=key_of(operation.key, x.found))]
    if isinstance(operation, declared.ToTable):
        return lambda x: [row_of(x)] if x.key is not None else no_row(x, "null-key")
    return lambda x: [row_of(x)]
