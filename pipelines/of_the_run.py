"""Expressions whose value depends on the run are refused: an epoch that is run again must give the same rows.

| expression | refused for |
|---|---|
| ``current_date``, ``now()``, ``unix_timestamp()``, ``TIMESTAMP '10:05'`` | the time of the run |
| ``rand()``, ``uuid()``, ``shuffle(tags)`` | chance |
| ``input_file_name()``, ``spark_partition_id()``, ``current_user``, ``version()`` | where it runs, and by whom |
| ``at > 'now()'``, ```now```, ``left.user``, ``user`` where a column has that name | nothing |

A value joiner that is a function of two columns is not examined. Held by ``tests/pipelines/test_sql_text.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any

from rivermeet.pipelines.sql_text import of_the_run


def problem_of_the_run(origin: Any, columns: Collection[str]) -> str | None:
    """Why an expression of a source or an operation depends on more than its records; None if none does.

    Parameters
    ----------
    columns
        Columns that its expressions may name.
    """
    for what, sql in _expressions(origin):
        why = of_the_run(sql, columns)
        if why is not None:
            return f"{what} {sql!r}: {why}"
    return None


def _expressions(origin: Any) -> Iterator[tuple[str, str]]:
    for field in fields(origin):
        given = getattr(origin, field.name)
        if isinstance(given, Mapping):
            yield from (
                (f"{field.name} column '{column}'", sql) for column, each in given.items() for sql in _sql(each)
            )
        elif field.name in ("timestamp", "tombstone", "where") or hasattr(given, "sql"):
            yield from ((field.name, sql) for sql in _sql(given))


def _sql(given: Any) -> list[str]:
    # An expression with its type, what is aggregated, or the text itself.
    found = getattr(given, "sql", getattr(given, "of", given))
    return [found] if isinstance(found, str) else []
