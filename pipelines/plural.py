"""How many there are of something, as a sentence has it.

1 row, 2 rows, 1,200 dead letters, 0 of 1 row

All that is shown counts by it. Held by ``tests/pipelines/test_plural.py``.
"""

from __future__ import annotations


def pluralize(number: int, noun: str) -> str:
    """The number with its noun, which is given in the singular and takes an s.

    Examples
    --------
    >>> pluralize(1, "dead letter"), pluralize(1200, "row")
    ('1 dead letter', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
