"""The reference of a declared operation: plain Python, one record at a time, the plainest form of what it computes.

A family's ``reference`` module has two functions. ``asks`` says which of the declared expressions it needs of each
side's records, by name; the caller evaluates them into `Record.found` and `Value.found`. ``reference_of`` makes
the join itself; its state lives in it. Records come in processing order (`interleave`), those of a stream that is
joined with itself once. What has a ``commit`` holds rows back until the epoch's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from rivermeet.pipelines import Operation
from rivermeet.pipelines.family import family_of

if TYPE_CHECKING:
    from rivermeet.joins.reference.records import Join

Asks = Mapping[str, Mapping[str, Any]]
"""Side to the expressions that are asked of its records, by name."""


class Reference(Protocol):
    """A family's reference module."""

    def asks(self, operation: Any) -> Asks:
        """Which expressions are evaluated of a side's records."""
        ...

    def reference_of(self, operation: Any) -> Join:
        """The join, without state yet."""
        ...


def reference_module(operation: Operation) -> Reference:
    """The reference of an operation's family; LookupError where a family from outside has none."""
    name = family_of(operation).reference
    if name is None:
        raise LookupError(f"family '{operation.family}' has no reference in plain Python")
    return cast(Reference, import_module(name))
