"""The interface of all declarations of what a source reads, so that no code tests for the kind.

Names of columns are compared as Spark does: letter by letter, whatever the case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from rivermeet.pipelines.errors import OptionError


class Reads:
    """A declaration of what a source reads; its columns are in ``schema``, name to Spark SQL type.

    Attributes
    ----------
    what
        The kind, in the phrase "a source of …".
    clock
        The time that ``max_ahead`` compares event time with, in the words of a dead letter.
    stays
        Whether rows can be looked up at their source later, so that dead letters need not keep them completely.
    keeps_partitions
        Whether records keep the partitions of the source, unless ``partitions`` is declared.
    added
        Columns that the source adds to those that are declared.
    """

    what: ClassVar[str] = "a table"
    clock: ClassVar[str] = "its commit"
    stays: ClassVar[bool] = False
    keeps_partitions: ClassVar[bool] = False
    added: ClassVar[Mapping[str, str]] = {}
    schema: Mapping[str, str]

    @property
    def declaration(self) -> type:
        """The class by which its kind of source is found."""
        return type(self)

    @property
    def label(self) -> str:
        """What is read, as messages name it."""
        raise NotImplementedError

    @property
    def key_columns(self) -> Mapping[str, str]:
        """Columns whose values determine a record's partition, for a kind that keeps partitions."""
        return {}

    @property
    def value_columns(self) -> Mapping[str, str]:
        """Columns of the value if none are declared: all but those that the source adds."""
        return {name: kind for name, kind in self.schema.items() if name not in self.added}

    def options(self, options: Mapping[str, Any], is_table: bool) -> Mapping[str, Any]:
        """Options of a source, with the kind's defaults; ValueError for one that the kind does not support."""
        return options


def alike(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that are equal to Spark; None if there are none.

    Examples
    --------
    >>> alike(["id", "Straße", "STRAßE"])
    ('Straße', 'STRAßE')
    >>> alike(["Straße", "STRASSE"])
    """
    seen: dict[str, str] = {}
    for name in names:
        # As in Java's equalsIgnoreCase: the Kelvin sign is a k, and ß is not ss.
        form = "".join((up if len(up := letter.upper()) == 1 else letter).lower()[0] for letter in name)
        if form in seen:
            return seen[form], name
        seen[form] = name
    return None


def refuse_alike(names: Iterable[str], where: str) -> None:
    """Raise ValueError if two names are equal to Spark; ``where`` says where they are."""
    found = alike(names)
    if found is not None:
        first, second = found
        what = f"two columns {first!r}" if first == second else f"columns {first!r} and {second!r}, one name to Spark"
        raise OptionError(f"{where} has {what}; leave one out, or name it otherwise")
