"""Invariants of windowed joins of two streams: that every pair and every one-sided row is there, and in its time.

Rows are compared with what the records that the epoch could see (new ones, and earlier ones whose windows are open)
come to as one relational join. With S⁻ stream time before a record, from the processing order:

    window 2/3, grace 1     left A @10, closes at 14     right a @13     a pair, if S⁻ of the later one is below 14
                            left B @20, closes at 24     nothing @25     B alone, once stream time has reached 24

Source: wiki page "Kafka Streams Join Semantics" (improved left/outer stream-stream join), "Early joins" (windowed
join: the result does not depend on the order of arrival). Held by ``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from rivermeet.expectations.invariant import EARLY, SEMANTICS, Invariant
from rivermeet.expectations.rules.derived import bounds
from rivermeet.expectations.rules.stream import stream_stream
from rivermeet.pipelines import Node

_STREAM_STREAM = frozenset({"stream-stream"})
_OUTER_SIDES = {"inner": (), "left": (0,), "outer": (0, 1)}


def _every_pair(node: Node) -> str:
    window = stream_stream(node).window
    # Else all records of one key are compared with each other: joins/stream_stream/time_buckets.py has the reason.
    width = min(4 * max(window.before + window.after, 1), 2**63 - 1)
    earliest, latest = f"timestamp - ({window.before}L)", f"timestamp + ({window.after}L)"
    touched = f"array_distinct(array({_bucket(earliest, width)}, {_bucket(latest, width)}))"
    return f"""SELECT p.* FROM (
  SELECT l.partition, l.key, l.offset AS left_offset, r.offset AS right_offset,
         l.timestamp AS left_timestamp, r.timestamp AS right_timestamp
  FROM (SELECT *, explode({touched}) AS bucket FROM {{arrived}} WHERE side = 0 AND taken) l
  JOIN (SELECT *, {_bucket("timestamp", width)} AS bucket FROM {{arrived}} WHERE side = 1 AND taken) r
    ON l.partition = r.partition AND l.key = r.key AND l.bucket = r.bucket
   AND r.timestamp BETWEEN l.{earliest} AND l.{latest}
  WHERE (l.is_new OR r.is_new)
    AND coalesce(CASE WHEN r.is_new AND (NOT l.is_new OR l.turn < r.turn)
                      THEN r.before < l.close ELSE l.before < r.close END, true)) p
LEFT ANTI JOIN {{rows}} o
  ON o.partition = p.partition AND o.left_offset = p.left_offset AND o.right_offset = p.right_offset"""


def _bucket(time: str, width: int) -> str:
    return f"(({time}) - pmod({time}, {width}L))"


def _every_lonely_record(node: Node) -> str:
    sides = ", ".join(map(str, _OUTER_SIDES[stream_stream(node).how]))
    paired = " UNION ALL ".join(
        f"SELECT partition, {side} AS side, {name}_offset AS offset FROM {relation} WHERE {name}_offset IS NOT NULL"
        for relation in ("{rows}", "{earlier}")
        for side, name in enumerate(("left", "right"))
    )
    return f"""SELECT CASE a.side WHEN 0 THEN 'left' ELSE 'right' END AS side, a.partition, a.offset, a.key,
       a.timestamp, a.close, s.reached AS stream_time
FROM {{arrived}} a JOIN {{reached}} s ON s.partition = a.partition
LEFT ANTI JOIN ({paired}) t ON t.partition = a.partition AND t.side = a.side AND t.offset = a.offset
WHERE a.side IN ({sides})
  AND ((a.taken AND a.close <= s.reached) OR (a.is_new AND a.has_value AND a.key IS NULL))"""


def _alone_out_of_time(node: Node, wrong: str) -> str:
    left, right = bounds(stream_stream(node))
    return f"""SELECT partition, offset, key, timestamp, close, started, reached
FROM (SELECT o.*, s.started, s.reached,
             o.timestamp + CASE WHEN o.right_offset IS NULL THEN ({left}L) ELSE ({right}L) END AS close
      FROM {{rows}} o LEFT JOIN {{reached}} s ON s.partition = o.partition
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
        sentence="A one-sided row comes in the epoch that closes its window: by window and grace late, no longer.",
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
