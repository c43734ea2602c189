"""Causes of differences in words, and which of them are harmless.

A difference is explained where another order of the records of *different* topics gives it, an order that keeps each
topic's own one: Kafka orders records within a partition alone, and the interleaving of topics by timestamp is best
effort with the default ``max.task.idle.ms=0`` (KIP-353, KIP-695; docs/order.md). All others are losses: the application
lacks a row, has one that should have gone, or has one that no records give.

- Joins of tables: the last row of a key depends on the last records of both tables alone, in whatever order they came.
  No difference is explained.
- Joins of streams: which pairs meet depends on the order, once a window's store forgets. A pair that is not there is a
  loss nevertheless.
- Look-ups: which version of the table a record sees depends on the order. A row that is not there is a loss.

The rule of each cause is in the module that decides it: ``joins/shadow/rows.py`` for any family, ``shadow.py`` in a
family's folder for its own. Held by ``tests/joins/shadow``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from rivermeet.pipelines import Operation
from rivermeet.pipelines.family import family_of


@dataclass(frozen=True)
class Cause:
    """Why the answers differ.

    Attributes
    ----------
    sentence
        What is wrong, in words.
    explained
        Whether it is harmless: the freedom of interleaving explains it, or it is not compared.
    """

    id: str
    sentence: str
    explained: bool = False


SHARED = (
    Cause("unread", "the application has not read the record that causes the row: not compared", True),
    Cause(
        "not_read_here",
        "the application has read records that we have not, and the difference may come of them: not compared",
        True,
    ),
    Cause("lost_row", "all records of the row are there, no order of the topics leaves it out, and it has not come"),
    Cause("unknown_value", "no records of the inputs give this value"),
    Cause("repeated", "a row that is right came more often than once, as after a restart at least once"),
    Cause("stale_row", "an earlier row of the key that was replaced or deleted since"),
)
"""Causes of any family."""
STALE_LEFT = Cause("stale_left", "the row joins a left row that was replaced or deleted since")
FALSE_ONE_SIDED = Cause("false_one_sided", "a row without a partner, for a record that has one")


def causes_of(operation: Operation | None) -> Mapping[str, Cause]:
    """Id to cause: those of all families, and those that the operation's family has in its ``shadow`` module."""
    module = family_of(operation).shadow if operation is not None else None
    own: tuple[Cause, ...] = import_module(module).CAUSES if module is not None else ()
    return {cause.id: cause for cause in (*SHARED, *own)}
