"""Ranges of the columns of records, from the statistics of their files, without reading records.

    an epoch's records, in two files       key.order_id   990,112 to 1,002,311   and 1,002,312 to 1,004,000
    a table of a hundred files             one of them has an order_id from 990,112 to 1,004,000

Only whole numbers have ranges: they are exact in the log, and keys that grow with time are whole numbers. Held
by ``tests/infra/epochs/test_column_ranges.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, ShortType

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.delta.changelog_files import any_of_sql, files_with
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.plain_files import is_plain
from rivermeet.pipelines.expressions import quote

WHOLE_NUMBERS = (ByteType, ShortType, IntegerType, LongType)
_Bounds = tuple[int, int] | None


@dataclass(frozen=True)
class ColumnRanges:
    """The lowest and the highest value of each column.

    Attributes
    ----------
    bounds
        Column (``key.order_id``) to both; None if no record has a value. A column is absent if that is unknown.
    lacking
        Columns that are null in some record: keys with nulls are equal if the same parts of both are null.
    is_empty
        Whether there are no records.
    """

    bounds: Mapping[str, _Bounds]
    lacking: frozenset[str] = frozenset()
    is_empty: bool = False

    @classmethod
    def of_changelog(cls, path: str, after: Mapping[int, int], upto: Offsets) -> Self:
        """Ranges of at least the records whose offset is in ``(after, upto]``."""
        table = open_table(path)
        if table is None or not is_plain(table):
            return cls({})
        files = files_with(pa.table(table.get_add_actions(flatten=True)), after, upto)
        # Dates are not converted: Python has none after the year 9999 or before 1.
        numbers = [field.name for field in files.schema if pa.types.is_integer(field.type)]
        return cls._of_files(files.select(numbers).to_pylist())

    @classmethod
    def _of_files(cls, files: Sequence[Mapping[str, Any]]) -> Self:
        """Ranges by the statistics of each file: ``min.NAME``, ``max.NAME``, ``null_count.NAME``, ``num_records``."""
        bounds: dict[str, _Bounds] = {}
        nulls = "null_count."
        named = {column.removeprefix(nulls) for file in files for column in file if column.startswith(nulls)}
        for name in named:
            valued = [f for f in files if (missing := f.get(nulls + name)) is None or missing < f["num_records"]]
            ends = [file.get(f"{end}.{name}") for file in valued for end in ("min", "max")]
            # For dates and strings the log may have rounded values.
            numbers = [end for end in ends if type(end) is int]
            if len(numbers) == len(ends):
                bounds[name] = (min(numbers), max(numbers)) if numbers else None
        lacking = frozenset(name for name in bounds if any(file.get(nulls + name) != 0 for file in files))
        return cls(bounds, lacking, not files)

    def sql(self, column: str, compared: Sequence[str]) -> str | None:
        """SQL for whether a column, at the path ``compared``, may equal ``column``; None if that is unknown."""
        if "." in column.partition(".")[2]:
            # In the log, a column whose name has a dot looks like a field of another one.
            return None
        if self.is_empty:
            return "false"
        if column not in self.bounds:
            return None
        path, bounds = ".".join(map(quote, compared)), self.bounds[column]
        equal = [] if bounds is None else [f"{path} BETWEEN {bounds[0]}L AND {bounds[1]}L"]
        missing = [f"{path} IS NULL"] if column in self.lacking else []
        return any_of_sql([*equal, *missing])

    def sql_of_key(self, key: Iterable[str]) -> str | None:
        """SQL for whether a row of a folded table may have the key of a record; None if that is unknown."""
        return all_of_ranges(self.sql(f"key.{column}", [column]) for column in key)


def has_range(kind: DataType) -> bool:
    """Whether columns of this type have ranges."""
    return isinstance(kind, WHOLE_NUMBERS)


def all_of_ranges(conditions: Iterable[str | None]) -> str | None:
    """SQL for whether all known conditions hold; None if none is known."""
    known = [one for one in conditions if one is not None]
    return " AND ".join(f"({one})" for one in known) or None


def any_of_ranges(conditions: Iterable[str | None]) -> str | None:
    """SQL for whether one of the conditions holds; None if one of them is unknown."""
    found = list(conditions)
    known = [f"({one})" for one in found if one is not None]
    return any_of_sql(known) if len(known) == len(found) else None
