"""A join family as one value, and its registry.

    operation                              family_of(operation)
    StreamStreamJoin, "stream-stream"      joins/stream_stream/family.py
    Tagged, "tagged"                       what the entry point ``tagged`` of `GROUP` names, or what was registered

A family consists of its declaration (an `Operation`, with the properties of one node) and its value, which names
its modules. They are named and not imported, because showing a pipeline must not load Spark, and a family's
rules are in ``expectations``, which ``joins`` may not import. No other code tests for the class of an operation
(``tests/project/test_families.py``). Adding a family from another package changes none of our files
(``tests/toy_family.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Literal

from rivermeet.pipelines.joins import Join, Operation

Side = Literal["left", "right"]
Equal = Mapping[str, tuple[Side, str]]
"""Column of a table's rows (``key.order_id``) to the side, and the column of its records, that it is equal to."""
Needed = Mapping[Side, Sequence[Equal]]
"""Side to the ways in which a row of its table is needed; of a side that is absent, all rows are needed."""

GROUP = "rivermeet.families"
"""Entry points that name families: the family's name to ``module:value``."""
OURS = {
    "stream-stream": "rivermeet.joins.stream_stream.family:FAMILY",
    "stream-table": "rivermeet.joins.stream_table.family:FAMILY",
    "stream-globaltable": "rivermeet.joins.stream_global.family:FAMILY",
    "table-table": "rivermeet.joins.table_table.family:FAMILY",
    "fk-table-table": "rivermeet.joins.foreign_key.family:FAMILY",
    "one-to-many": "rivermeet.joins.one_to_many.family:FAMILY",
    "filter": "rivermeet.joins.stateless.family:FILTER",
    "map-values": "rivermeet.joins.stateless.family:MAP_VALUES",
    "select-key": "rivermeet.joins.stateless.family:SELECT_KEY",
    "to-table": "rivermeet.joins.stateless.family:TO_TABLE",
    "to-stream": "rivermeet.joins.stateless.family:TO_STREAM",
    "merge": "rivermeet.joins.stateless.family:MERGE",
    "table-aggregate": "rivermeet.joins.aggregates.family:TABLE",
    "windowed-aggregate": "rivermeet.joins.aggregates.family:WINDOWED",
    "global-global": "rivermeet.joins.stream_global.family:VIEW",
}
"""The built-in families, which are also known in a checkout that is not installed."""


def _all_rows(operation: Any) -> Needed:
    return {}


@dataclass(frozen=True)
class Rule:
    """One question about a family, with the answer of each profile that offers it.

    Attributes
    ----------
    asks
        The question.
    says
        Profile to its answer.
    of
        Whether a declared join can show the difference.
    """

    asks: str
    says: Mapping[str, str]
    of: Callable[[Join], bool] = lambda join: True


@dataclass(frozen=True, kw_only=True)
class Family:
    """Everything that exists for one kind of operation.

    Attributes
    ----------
    declaration
        The class of its operations.
    operators
        Profile to the module that computes its rows: ``state`` and ``compute`` (`joins.operator.Operator`).
    reference
        Module with the same join in plain Python, record by record: ``asks`` and ``reference_of``
        (``joins/reference/families.py``).
    rules
        Module with the invariants that its rows must keep besides those of all: ``RULES``.
    why
        Module with the words for what the reference says of a row, and of a key without one: ``reads``, ``of_row`` and
        ``of_absence`` (``joins/why/families.py``).
    shadow
        Module that finds the causes of differences from a running application: ``compare``, and the ``CAUSES`` of
        this family alone. None: rows are compared without causes.
    needed
        The rows of its tables that an epoch can need (``joins/equal_columns.py``).
    differences
        The rules in which its profiles differ, in words.
    """

    declaration: type[Operation]
    operators: Mapping[str, str]
    reference: str | None = None
    rules: str | None = None
    why: str = "rivermeet.joins.why.generic"
    shadow: str | None = None
    needed: Callable[[Any], Needed] = _all_rows
    differences: tuple[Rule, ...] = ()

    @property
    def name(self) -> str:
        """The name of its kind, as used by checks and tags."""
        return self.declaration.family

    def operator(self, profile: str) -> Any:
        """The module that computes the rows in a profile; `joins.operator.Operator`."""
        return import_module(self.operators[profile])

    @property
    def rules_module(self) -> ModuleType | None:
        """The module of its invariants."""
        return import_module(self.rules) if self.rules is not None else None


def families() -> Mapping[str, Family]:
    """Name to family: ours, those of installed distributions, and those that were registered."""
    return {name: find_family(name) for name in load_families()}


def family_of(operation: Operation) -> Family:
    """The family of a declared operation.

    Raises
    ------
    LookupError
        If it is not registered.
    """
    return find_family(operation.family)


def register(family: Family) -> None:
    """Make a family known in this process; one of an installed distribution has an entry point of `GROUP` instead.

    Raises
    ------
    ValueError
        If another family has its name.
    """
    if load_families().setdefault(family.name, family) is not family:
        raise ValueError(f"there is a family {family.name!r} already: give {family.declaration.__name__} another name")


@cache
def load_families() -> dict[str, Family | EntryPoint]:
    """Name to family, or to the place from which it is loaded."""
    found: dict[str, Family | EntryPoint] = {name: EntryPoint(name, value, GROUP) for name, value in OURS.items()}
    for entry in entry_points(group=GROUP):
        if found.setdefault(entry.name, entry) != entry:
            raise ValueError(f"{entry.value} gives a family {entry.name!r}, and there is one already: uninstall either")
    return found


def find_family(name: str) -> Family:
    """A family by its name; LookupError if it is not registered."""
    found = load_families().get(name)
    if found is None:
        raise LookupError(
            f"no family {name!r} is registered, there are {', '.join(sorted(load_families()))}: call "
            f"rivermeet.pipelines.family.register(Family(…)) where its class stands, or give an entry point {GROUP!r}"
        )
    family: Family = found.load() if isinstance(found, EntryPoint) else found
    if family.name != name:
        raise LookupError(f"entry point {name!r} of {GROUP!r} gives the family {family.name!r}: call it that")
    return family
