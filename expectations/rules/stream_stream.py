"""Invariants of windowed joins of two streams: what a row may be, and that every pair and every one-sided row is there.

Pairs and one-sided rows are compared with what the records that the epoch could see (new ones, and earlier ones whose
windows are open) come to as one relational join. With S⁻ stream time before a record, from the processing order:

    window 2/3, grace 1     left A @10, closes at 14     right a @13     a pair, if S⁻ of the later one is below 14
                            left B @20, closes at 24     nothing @25     B alone, once stream time has reached 24

``{arrived}`` has both sides (0 left, 1 right) with what follows from their order alone: ``turn`` in the processing
order, ``close`` of the window, stream time ``before`` the record, and whether it was ``taken``: it has key and value,
and came in time. A record of an earlier epoch has no turn; it was in time if it is still open. ``{made_of}`` has the
rows beside the records that they are made of, so that two rules look each record up once.

    window 2/3, grace 1, stream time 11       left @20: turn (20, 0, …), before 11, close 24, taken
                                              left @7, after it: before 20, close 11, not taken

Source: wiki page "Kafka Streams Join Semantics" (improved left/outer stream-stream join), "Early joins" (windowed
join: the result does not depend on the order of arrival); ``joins/order.py`` and
``joins/stream_stream/profile_3_1.py`` say the same of frames. Held by ``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from typing import cast

from rivermeet.expectations.invariant import Rule
from rivermeet.expectations.rules.derived import SO_FAR
from rivermeet.pipelines import Node, StreamStreamJoin

_STREAM_STREAM = ("stream-stream",)
_OUTER = "Kafka Streams Join Semantics, improved left/outer stream-stream join"
_OUTER_SIDES = {"inner": (), "left": (0,), "outer": (0, 1)}

_ROWS = """(SELECT partition, offset, left_offset, right_offset, true AS is_new FROM {rows}
      UNION ALL SELECT partition, offset, left_offset, right_offset, false FROM {earlier})"""


def _has_no_outer_side(node: Node) -> str | None:
    return "an inner join has no one-sided rows" if _join(node).how == "inner" else None


@Rule(_OUTER, _STREAM_STREAM, (37, 38), blocking=True)
def no_spurious_one_sided_row(node: Node) -> str:
    """A record that is joined never also appears alone, and never twice alone."""
    # One line per joined record: `record` took part with `partner`, or alone where that is null. Only records that the
    # epoch touches: what was wrong before is not this epoch's fault.
    return f"""SELECT partition, side, record, count_if(partner IS NULL) AS one_sided,
       count_if(partner IS NOT NULL) AS paired, min(offset) AS first_offset, max(offset) AS last_offset
FROM (SELECT *, 'left' AS side, left_offset AS record, right_offset AS partner FROM {_ROWS}
      UNION ALL SELECT *, 'right', right_offset, left_offset FROM {_ROWS})
WHERE record IS NOT NULL
GROUP BY partition, side, record
HAVING bool_or(is_new) AND count_if(partner IS NULL) > 0 AND count(*) > 1"""


@Rule("Early joins, output of a windowed join", _STREAM_STREAM, (26, 55, 194), blocking=True)
def no_duplicate_pair(node: Node) -> str:
    """Two records are joined with each other at most once."""
    return f"""SELECT partition, left_offset, right_offset, count(*) AS copies,
       min(offset) AS first_offset, max(offset) AS last_offset
FROM {_ROWS}
WHERE left_offset IS NOT NULL AND right_offset IS NOT NULL
GROUP BY partition, left_offset, right_offset
HAVING count(*) > 1 AND bool_or(is_new)"""


@Rule("KIP-77, KStream-KStream join, window predicate", _STREAM_STREAM, (25,), blocking=True)
def pair_in_window(node: Node) -> str:
    """Both records of a pair exist, have its key, and lie within the declared window."""
    join = _join(node)
    before, after = join.window.before, join.window.after
    return f"""SELECT partition, offset, key, left_offset, right_offset, left_key, right_key, left_timestamp,
       right_timestamp, right_timestamp - left_timestamp AS distance_ms
FROM {{made_of}}
WHERE left_offset IS NOT NULL AND right_offset IS NOT NULL
  AND NOT coalesce(key = left_key AND key = right_key AND right_timestamp BETWEEN
                   left_timestamp - ({before}L) AND left_timestamp + ({after}L), false)"""


@Rule("Kafka Streams Join Semantics, tables of inner, left and outer stream-stream join", _STREAM_STREAM, blocking=True)
def alone_only_on_outer_sides(node: Node) -> str:
    """Only a record of an outer side appears without a partner."""
    wrong = {
        "inner": "left_offset IS NULL OR right_offset IS NULL",
        "left": "left_offset IS NULL",
        "outer": "left_offset IS NULL AND right_offset IS NULL",
    }[_join(node).how]
    return f"""SELECT partition, offset, key, left_offset, right_offset
FROM {{rows}} WHERE {wrong}"""


@Rule("KIP-77, suggested semantics, null-valued records of a stream", _STREAM_STREAM, (29,), blocking=True)
def made_of_values(node: Node) -> str:
    """No row is made of a record without a value."""
    return """SELECT partition, offset, key, 'left' AS side, left_offset AS record
FROM {made_of} WHERE NOT left_has_value
UNION ALL SELECT partition, offset, key, 'right', right_offset FROM {made_of} WHERE NOT right_has_value"""


def _join(node: Node) -> StreamStreamJoin:
    return cast(StreamStreamJoin, node.join_spec)


def equal_keys(node: Node) -> tuple[str, str]:
    """Keys with their partitions, of both sides."""
    return "SELECT key, partition FROM {left}", "SELECT key, partition FROM {right}"


def _open_ms(join: StreamStreamJoin) -> tuple[int, int]:
    """How long (ms) after its timestamp a left and a right record are open."""
    window = join.window
    return max(window.after, 0) + window.grace, max(window.before, 0) + window.grace


def _select_arrived(node: Node) -> str:
    join = _join(node)
    itself = join.left is join.right
    turn = f"struct(head, {'partition, offset, side' if itself else 'side, partition, offset'})"
    # A record joined with itself comes twice, at one stream time: the second copy moves it.
    moves = "CASE WHEN is_new AND side = 1 THEN timestamp END" if itself else "CASE WHEN is_new THEN timestamp END"
    # Each side by itself, and by its partition alone: what comes of both is then where the next window wants it.
    sides = " UNION ALL ".join(
        f"SELECT {side} AS side, partition, offset, key, value IS NOT NULL AS has_value, timestamp, is_new, "
        f"timestamp + ({bound}L) AS close, {SO_FAR} AS head FROM {{{name}}}"
        for side, (name, bound) in enumerate(zip(("left", "right"), _open_ms(join), strict=True))
    )
    return f"""SELECT *, key IS NOT NULL AND has_value AND CASE WHEN is_new
         THEN coalesce(before < close, true) ELSE coalesce(close > started, true) END AS taken
  FROM (SELECT *, greatest(started, max({moves}) OVER (PARTITION BY partition ORDER BY turn
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS before
        FROM (SELECT a.*, t.stream_time AS started
              FROM (SELECT * EXCEPT (head), CASE WHEN is_new THEN {turn} END AS turn FROM ({sides})) a
              LEFT JOIN {{times}} t ON t.partition = a.partition))"""


def _select_parts(node: Node) -> str:
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


@Rule("Early joins, KStream-KStream join, inner join whatever the order of arrival", _STREAM_STREAM, (26, 42, 51, 53))
def every_pair_in_window(node: Node) -> str:
    """Any two records within the window that arrive within its grace are joined."""
    window = _join(node).window
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


@Rule(_OUTER, _STREAM_STREAM, (38, 42, 53), excluded=_has_no_outer_side)
def every_lonely_record(node: Node) -> str:
    """Every record of an outer side whose window closes without a match appears alone."""
    sides = ", ".join(map(str, _OUTER_SIDES[_join(node).how]))
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
    left, right = _open_ms(_join(node))
    return f"""SELECT partition, offset, key, timestamp, close, started, reached
FROM (SELECT o.*, s.started, s.reached,
             o.timestamp + CASE WHEN o.right_offset IS NULL THEN ({left}L) ELSE ({right}L) END AS close
      FROM {{rows}} o LEFT JOIN {{reached}} s ON s.partition = o.partition
      WHERE (o.left_offset IS NULL) <> (o.right_offset IS NULL) AND o.key IS NOT NULL)
WHERE {wrong}"""


@Rule(f"{_OUTER}, table of expiry", _STREAM_STREAM, (38,), excluded=_has_no_outer_side)
def alone_after_close(node: Node) -> str:
    """No record appears alone before stream time has reached its window's end and grace."""
    return _alone_out_of_time(node, "NOT coalesce(close <= reached, false)")


@Rule(f"{_OUTER}, delay of results", _STREAM_STREAM, (45,), severity="warning", excluded=_has_no_outer_side)
def alone_in_time(node: Node) -> str:
    """A one-sided row comes in the epoch that closes its window: delayed by window and grace, no longer."""
    return _alone_out_of_time(node, "close <= started")


RULES = (
    no_spurious_one_sided_row,
    pair_in_window,
    no_duplicate_pair,
    alone_only_on_outer_sides,
    made_of_values,
    every_pair_in_window,
    every_lonely_record,
    alone_after_close,
    alone_in_time,
)
DERIVED = {"arrived": _select_arrived, "made_of": _select_parts}
