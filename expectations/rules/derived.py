"""Relations that are made of others, once for all queries that name them.

``{arrived}`` has the records that the epoch affects, with what follows from their order alone. Of a join of two
streams, both sides (0 left, 1 right): ``turn`` in the processing order, ``close`` of the window, stream time ``before``
the record, and whether it was ``taken``: it has key and value, and came in time. A record of an earlier epoch has no
turn; it was in time if it is still open. Of a windowed aggregate, records with key and value: ``left``, and of new ones
the stream time ``reached`` with them. ``{reached}`` has stream time per partition before the epoch (``started``) and
after it (``reached``). ``{made_of}`` has the rows of a join of two streams beside the records that they are made of, so
that two rules look each record up once.

    window 2/3, grace 1, stream time 11       left @20: turn (20, 0, …), before 11, close 24, taken
                                              left @7, after it: before 20, close 11, not taken

Source: ``joins/order.py`` and ``joins/stream_stream/profile_3_1.py`` say the same of frames. Held by
``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rivermeet.expectations.rules.record_sql import records
from rivermeet.pipelines import Node, StreamStreamJoin, WindowedAggregate

_SO_FAR = """max(CASE WHEN is_new THEN timestamp END)
         OVER (PARTITION BY partition ORDER BY offset ROWS UNBOUNDED PRECEDING)"""
"""The highest timestamp of an input's new records up to one, by its partition."""


def bounds(join: StreamStreamJoin) -> tuple[int, int]:
    """How long (ms) after its timestamp a left and a right record are open."""
    window = join.window
    return max(window.after, 0) + window.grace, max(window.before, 0) + window.grace


def _arrived(node: Node) -> str:
    made = node.operation
    if isinstance(made, StreamStreamJoin):
        return _of_two_streams(made)
    assert isinstance(made, WindowedAggregate), node.name
    usable = """(SELECT a.*, t.stream_time FROM {left} a LEFT JOIN {times} t ON t.partition = a.partition
      WHERE a.key IS NOT NULL AND a.value IS NOT NULL)"""
    reached = f", is_new, CASE WHEN is_new THEN greatest(stream_time, {_SO_FAR}) END AS reached"
    return f"SELECT * FROM {records(made.input, usable, 'left', reached)}"


def _of_two_streams(join: StreamStreamJoin) -> str:
    itself = join.left is join.right
    turn = f"struct(head, {'partition, offset, side' if itself else 'side, partition, offset'})"
    # A record joined with itself comes twice, at one stream time: the second copy moves it.
    moves = "CASE WHEN is_new AND side = 1 THEN timestamp END" if itself else "CASE WHEN is_new THEN timestamp END"
    # Each side by itself, and by its partition alone: what comes of both is then where the next window wants it.
    sides = " UNION ALL ".join(
        f"SELECT {side} AS side, partition, offset, key, value IS NOT NULL AS has_value, timestamp, is_new, "
        f"timestamp + ({bound}L) AS close, {_SO_FAR} AS head FROM {{{name}}}"
        for side, (name, bound) in enumerate(zip(("left", "right"), bounds(join), strict=True))
    )
    return f"""SELECT *, key IS NOT NULL AND has_value AND CASE WHEN is_new
         THEN coalesce(before < close, true) ELSE coalesce(close > started, true) END AS taken
  FROM (SELECT *, greatest(started, max({moves}) OVER (PARTITION BY partition ORDER BY turn
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS before
        FROM (SELECT a.*, t.stream_time AS started
              FROM (SELECT * EXCEPT (head), CASE WHEN is_new THEN {turn} END AS turn FROM ({sides})) a
              LEFT JOIN {{times}} t ON t.partition = a.partition))"""


def _made_of(node: Node) -> str:
    sides = {"left": "l", "right": "r"}
    facts = ", ".join(
        f"{of}.key AS {side}_key, {of}.timestamp AS {side}_timestamp, "
        f"CASE WHEN {of}.offset IS NOT NULL THEN {of}.value IS NOT NULL END AS {side}_has_value"
        for side, of in sides.items()
    )
    joins = " ".join(
        f"LEFT JOIN {{{side}}} {of} ON {of}.partition = o.partition AND {of}.offset = o.{side}_offset"
        for side, of in sides.items()
    )
    return f"SELECT o.partition, o.offset, o.key, o.left_offset, o.right_offset, {facts} FROM {{rows}} o {joins}"


def _reached(node: Node) -> str:
    return """SELECT partition, max(started) AS started, max(timestamp) AS reached
FROM (SELECT partition, timestamp, CAST(NULL AS BIGINT) AS started FROM {new_left}
      UNION ALL SELECT partition, timestamp, NULL FROM {new_right}
      UNION ALL SELECT partition, stream_time, stream_time FROM {times}) GROUP BY partition"""


DERIVED: Mapping[str, Callable[[Node], str]] = {
    "arrived": _arrived,
    "made_of": _made_of,
    "reached": _reached,
}
"""Name to the query over other relations."""
