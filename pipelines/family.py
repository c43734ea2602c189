"""A join family as one value, and its registry.

    operation                              family_of(operation)
    StreamStreamJoin, "stream-stream"      joins/stream_stream/family.py
    Tagged, "tagged"                       what the entry point ``tagged`` of `GROUP` names, or what was registered

A family consists of its declaration (an `Operation`, with the properties of one node) and its value, which names
its modules. They are named and not imported, because showing a pipeline must not load Spark, and a family's
rules are in ``expectations``, which ``joins`` may not import. No other code tests for the class of an operation
(``tests/project/test_families.py``). Adding a family from another package changes none of our files
(``tests/toy_family.py``).

The rules in which a family's profiles differ are questions with an answer in words for each: profiles with the same
answer do not differ. ``rivermeet explain`` shows them for a declared join.
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


def need_all(operation: Any) -> Needed:
    """All rows of its tables."""
    return {}


@dataclass(frozen=True)
class Rule:
    """One question about a family, with the answer of each profile that offers it.

    Attributes
    ----------
    asks
        The question.
    answers
        Profiles, separated by blanks, to their answer.
    of
        Whether a declared join can show the difference.
    """

    asks: str
    answers: Mapping[str, str]
    of: Callable[[Join], bool] = lambda join: True

    @property
    def says(self) -> Mapping[str, str]:
        """Profile to its answer."""
        return {profile: answer for profiles, answer in self.answers.items() for profile in profiles.split()}


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
        (``joins/reference/records.py``).
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
    needed: Callable[[Any], Needed] = need_all
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


def is_outer(join: Join) -> bool:
    """Whether it gives rows without a partner."""
    return join.how != "inner"


def is_cached(join: Join) -> bool:
    """Whether it has a cache."""
    return getattr(join, "cache", None) is not None


def rules_of(join: Join) -> list[Rule]:
    """Rules in which a declared join's profiles differ."""
    return [rule for rule in family_of(join).differences if rule.of(join)]


def compare_profiles(join: Join, one: str, other: str) -> list[tuple[str, str, str]]:
    """(question, answer of one profile, answer of the other) where they differ for this join."""
    return [
        (rule.asks, rule.says[one], rule.says[other])
        for rule in rules_of(join)
        if rule.says.get(one) != rule.says.get(other)
    ]


def explain_refusal(join: Join, profile: str) -> str | None:
    """Why a profile does not offer the join, or None."""
    if profile not in join.profiles:
        return f"profile {profile!r} has no {join.family} join; it is offered by {', '.join(join.profiles)}"
    if (lacking := join.find_lacking(profile)) is not None:
        return f"profile {profile!r} has no {lacking}"
    versioned = any(getattr(node, "history", None) is not None for node in join.inputs.values())
    if versioned and profile in ("0.10.0", "0.10.2"):
        return f"profile {profile!r} has no versioned tables"
    return None
