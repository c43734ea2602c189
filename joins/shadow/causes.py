"""Causes of differences in words, and which of them are no loss.

A difference is explained where another order of the records of *different* topics gives it, an order that keeps each
topic's own one: Kafka orders records within a partition alone, and the interleaving of topics by timestamp is best
effort with the default ``max.task.idle.ms=0`` (KIP-353, KIP-695; docs/order.md). All others are losses: the application
lacks a row, has one that should have gone, or has one that no records give.

- Joins of tables: the last row of a key depends on the last records of both tables alone, in whatever order they came.
  No difference is explained.
- Joins of streams: which pairs meet depends on the order, once a window's store forgets. A pair that is not there is a
  loss all the same.
- Look-ups: which version of the table a record sees depends on the order. A row that is not there is a loss.

The rule of each cause stands in the module that decides it: ``joins/shadow/tables.py``, ``joins/shadow/rows.py``,
``joins/shadow/stream_stream.py``, ``joins/shadow/lookups.py``. Held by ``tests/joins/shadow``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """Why the answers differ.

    Attributes
    ----------
    sentence
        What is wrong, in words.
    explained
        Whether it is no loss: the freedom of interleaving explains it, or it is not compared.
    """

    id: str
    sentence: str
    explained: bool = False


_ALL = (
    Cause("unread", "the application has not read the record that causes the row: not compared", True),
    Cause(
        "not_read_here",
        "the application has read records that we have not, and the difference may come of them: not compared",
        True,
    ),
    Cause("lost_row", "all records of the row are there, no order of the topics leaves it out, and it has not come"),
    Cause("unknown_value", "no records of the inputs give this value"),
    Cause("repeated", "a row that is right came more often than once, as after a restart at least once"),
    # Tables.
    Cause(
        "stale_foreign_key",
        "the row joins a right row that was replaced or deleted since, and was not answered again: a known fault of "
        "foreign-key joins, when the left row is updated while the answer to the right one is on its way",
    ),
    Cause("stale_left", "the row joins a left row that was replaced or deleted since"),
    Cause("stale_right", "the row joins a right row that was replaced or deleted since"),
    Cause("stale_row", "an earlier row of the key that was replaced or deleted since"),
    # Streams.
    Cause("ran_ahead", "one topic ran ahead, and the pair's other record was no longer in its window's store"),
    Cause("late_record", "a record of the row came after its window and grace by its own topic's time", True),
    Cause("false_one_sided", "a row without a partner, for a record that has one"),
    Cause("kept_longer", "a pair within its window, which our order of the topics finds too late", True),
    Cause("still_waiting", "a row without a partner that waits for a later record to release it", True),
    Cause("released_earlier", "a row without a partner whose window has closed, which ours has not released yet", True),
    # Look-ups.
    Cause("other_version", "the look-up saw another version of the table's row", True),
    Cause("looked_up_too_early", "the look-up found no row, where the table's topic had one with an earlier time"),
    Cause("tie", "the look-up and the table's record have the same time: either may go first", True),
)
CAUSES: Mapping[str, Cause] = {cause.id: cause for cause in _ALL}
"""Id to cause."""
