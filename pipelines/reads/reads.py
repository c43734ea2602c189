"""What every declaration of something to read answers, so that nobody asks of which kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class Reads:
    """A declaration of what a source reads; its columns are in ``schema``, name to Spark SQL type.

    Attributes
    ----------
    what
        A source of what it is.
    clock
        What event time is compared with by ``max_ahead``, in the words of a dead letter.
    stays
        Whether what was read can be looked up where it lies, so that dead letters need not keep all of it.
    keeps_partitions
        Whether records stay in the partitions that they come in, unless ``partitions`` is declared.
    """

    what: ClassVar[str] = "a table"
    clock: ClassVar[str] = "its commit"
    stays: ClassVar[bool] = False
    keeps_partitions: ClassVar[bool] = False
    schema: Mapping[str, str]

    @property
    def named(self) -> str:
        """What is read, as messages name it."""
        raise NotImplementedError

    @property
    def key_columns(self) -> Mapping[str, str]:
        """Columns by whose values records are in their partitions; of a kind that keeps partitions."""
        return {}

    @property
    def value_columns(self) -> Mapping[str, str]:
        """Columns that the value is made of where none are declared."""
        return self.schema

    def options(self, options: Mapping[str, Any], is_table: bool) -> Mapping[str, Any]:
        """Options of a source, with what the kind gives by itself; ValueError for one that it cannot have."""
        return options
