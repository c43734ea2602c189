"""The interface of all declarations of what a source reads, so that no code tests for the kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


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
    """

    what: ClassVar[str] = "a table"
    clock: ClassVar[str] = "its commit"
    stays: ClassVar[bool] = False
    keeps_partitions: ClassVar[bool] = False
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
        """Columns of the value if none are declared."""
        return self.schema

    def options(self, options: Mapping[str, Any], is_table: bool) -> Mapping[str, Any]:
        """Options of a source, with the kind's defaults; ValueError for one that the kind does not support."""
        return options
