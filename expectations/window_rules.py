"""Invariants of windowed joins of two streams: that every pair and every one-sided row is there, and in its time.

Rows are compared with what the records that the epoch could see (new ones, and earlier ones whose windows are open)
come to as one relational join. With S⁻ stream time before a record, from the processing order:

    window 2/3, grace 1     left A @10, closes at 14     right a @13     a pair, if S⁻ of the later one is below 14
                            left B @20, closes at 24     nothing @25     B alone, once stream time has reached 24

Source: wiki page "Kafka Streams Join Semantics" (improved left/outer stream-stream join), "Early joins" (windowed
join: the result does not depend on the order of arrival). Held by ``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from expectations.invariant import EARLY, SEMANTICS, Invariant
from expectations.stream_rules import stream_stream
from pipelines import Node

_STREAM_STREAM = frozenset({"stream-stream"})
_OUTER_SIDES = {"inner": (), "left": (0,), "outer": (0, 1)}


def _bounds(node: Node) -> tuple[int, int]:
    """How long (ms) after its timestamp a left and a right record are open."""
    window = stream_stream(node).window
    return max(window.after, 0) + window.grace, max(window.before, 0) + window.grace


def _arrived(node: Node) -> str:
    """Records in reach, both sides (0 left, 1 right): ``turn``, ``close``, and stream time ``before`` them.

    ``taken``: with key and value, and in time. A record of an earlier epoch has no turn; it was in time if it is open.
    """
    join = stream_stream(node)
    itself = join.left is join.right
    head = "max(timestamp) OVER (PARTITION BY side, partition, is_new ORDER BY offset)"
    turn = f"struct({head} AS head, {'partition, offset, side' if itself else 'side, partition, offset'})"
    # A record joined with itself comes twice, at one stream time: the second copy moves it.
    moves = "CASE WHEN is_new AND side = 1 THEN timestamp END" if itself else "CASE WHEN is_new THEN timestamp END"
    sides = " UNION ALL ".join(
        f"SELECT {side} AS side, partition, offset, key, value IS NOT NULL AS has_value, timestamp, is_new, "
        f"timestamp + ({bound}L) AS close FROM {{{name}}}"
        for side, (name, bound) in enumerate(zip(("left", "right"), _bounds(node), strict=True))
    )
    return f"""SELECT *, key IS NOT NULL AND has_value AND CASE WHEN is_new
           THEN coalesce(before < close, true) ELSE coalesce(close > started, true) END AS taken
    FROM (SELECT *, greatest(started, max({moves}) OVER (PARTITION BY partition ORDER BY turn
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS before
          FROM (SELECT a.*, t.stream_time AS started
                FROM (SELECT *, CASE WHEN is_new THEN {turn} END AS turn FROM ({sides})) a
                LEFT JOIN {{times}} t ON t.partition = a.partition))"""


def _reached() -> str:
    """Stream time per partition before the epoch (``started``) and after it (``reached``)."""
    return """SELECT partition, max(started) AS started, max(timestamp) AS reached
    FROM (SELECT partition, timestamp, CAST(NULL AS BIGINT) AS started FROM {new_left}
          UNION ALL SELECT partition, timestamp, NULL FROM {new_right}
          UNION ALL SELECT partition, stream_time, stream_time FROM {times}) GROUP BY partition"""


def _every_pair(node: Node) -> str:
    window = stream_stream(node).window
    return f"""WITH arrived AS ({_arrived(node)})
SELECT p.* FROM (
  SELECT l.partition, l.key, l.offset AS left_offset, r.offset AS right_offset,
         l.timestamp AS left_timestamp, r.timestamp AS right_timestamp
  FROM arrived l JOIN arrived r ON l.partition = r.partition AND l.key = r.key
   AND r.timestamp BETWEEN l.timestamp - ({window.before}L) AND l.timestamp + ({window.after}L)
  WHERE l.side = 0 AND r.side = 1 AND l.taken AND r.taken AND (l.is_new OR r.is_new)
    AND coalesce(CASE WHEN r.is_new AND (NOT l.is_new OR l.turn < r.turn)
                      THEN r.before < l.close ELSE l.before < r.close END, true)) p
LEFT ANTI JOIN {{rows}} o
  ON o.partition = p.partition AND o.left_offset = p.left_offset AND o.right_offset = p.right_offset"""


def _every_lonely_record(node: Node) -> str:
    sides = ", ".join(map(str, _OUTER_SIDES[stream_stream(node).how]))
    told = " UNION ALL ".join(
        f"SELECT partition, {side} AS side, {name}_offset AS offset FROM {relation} WHERE {name}_offset IS NOT NULL"
        for relation in ("{rows}", "{earlier}")
        for side, name in enumerate(("left", "right"))
    )
    return f"""WITH arrived AS ({_arrived(node)}), reached AS ({_reached()})
SELECT CASE a.side WHEN 0 THEN 'left' ELSE 'right' END AS side, a.partition, a.offset, a.key, a.timestamp,
       a.close, s.reached AS stream_time
FROM arrived a JOIN reached s ON s.partition = a.partition
LEFT ANTI JOIN ({told}) t ON t.partition = a.partition AND t.side = a.side AND t.offset = a.offset
WHERE a.side IN ({sides}) AND ((a.taken AND a.close <= s.reached) OR (a.is_new AND a.has_value AND a.key IS NULL))"""


def _alone_out_of_time(node: Node, wrong: str) -> str:
    left, right = _bounds(node)
    return f"""WITH reached AS ({_reached()})
SELECT partition, offset, key, timestamp, close, started, reached
FROM (SELECT o.*, s.started, s.reached,
             o.timestamp + CASE WHEN o.right_offset IS NULL THEN ({left}L) ELSE ({right}L) END AS close
      FROM {{rows}} o LEFT JOIN reached s ON s.partition = o.partition
      WHERE (o.left_offset IS NULL) <> (o.right_offset IS NULL) AND o.key IS NOT NULL)
WHERE {wrong}"""


def _has_no_outer_side(node: Node) -> str | None:
    return "an inner join has no one-sided rows" if stream_stream(node).how == "inner" else None


RULES = (
    Invariant(
        id="every_pair_in_window",
        sentence="Every two records that lie within the window, and arrive within its grace, are joined.",
        document=EARLY,
        section="KStream-KStream join, inner join whatever the order of arrival",
        requirements=(26, 42, 51, 53),
        families=_STREAM_STREAM,
        needs_table=False,
        severity="critical",
        blocking=False,
        stage="epoch",
        violations=_every_pair,
    ),
    Invariant(
        id="every_lonely_record",
        sentence="Every record of an outer side whose window closes without a match appears alone.",
        document=SEMANTICS,
        section="improved left/outer stream-stream join",
        requirements=(38, 42, 53),
        families=_STREAM_STREAM,
        needs_table=False,
        severity="critical",
        blocking=False,
        stage="epoch",
        violations=_every_lonely_record,
        excluded=_has_no_outer_side,
    ),
    Invariant(
        id="alone_after_close",
        sentence="No record appears alone before stream time has reached its window's end and grace.",
        document=SEMANTICS,
        section="improved left/outer stream-stream join, table of expiry",
        requirements=(38,),
        families=_STREAM_STREAM,
        needs_table=False,
        severity="critical",
        blocking=False,
        stage="epoch",
        violations=lambda node: _alone_out_of_time(node, "NOT coalesce(close <= reached, false)"),
        excluded=_has_no_outer_side,
    ),
    Invariant(
        id="alone_in_time",
        sentence="A one-sided row comes in the epoch that closes its window, delayed by window and grace and no longer.",
        document=SEMANTICS,
        section="improved left/outer stream-stream join, delay of results",
        requirements=(45,),
        families=_STREAM_STREAM,
        needs_table=False,
        severity="warning",
        blocking=False,
        stage="epoch",
        violations=lambda node: _alone_out_of_time(node, "close <= started"),
        excluded=_has_no_outer_side,
    ),
)
