"""Invariants of windowed joins of two streams: what a row may be. What must be there is in ``window_rules``."""

from __future__ import annotations

from rivermeet.expectations.invariant import EARLY, KIP_77, SEMANTICS, Invariant
from rivermeet.pipelines import Node, StreamStreamJoin

_STREAM_STREAM = frozenset({"stream-stream"})

# One line per joined record: `record` took part with `partner`, or alone where that is null.
_PARTS = """
  SELECT *, stack(2, 'left', left_offset, right_offset, 'right', right_offset, left_offset)
         AS (side, record, partner)
  FROM (SELECT partition, offset, left_offset, right_offset, true AS is_new FROM {rows}
        UNION ALL SELECT partition, offset, left_offset, right_offset, false FROM {earlier})"""


def _no_spurious_row(node: Node) -> str:
    # Only records that the epoch touches: what was wrong before is not this epoch's fault.
    return f"""SELECT partition, side, record, count_if(partner IS NULL) AS one_sided,
       count_if(partner IS NOT NULL) AS paired, min(offset) AS first_offset, max(offset) AS last_offset
FROM ({_PARTS})
WHERE record IS NOT NULL
GROUP BY partition, side, record
HAVING bool_or(is_new) AND count_if(partner IS NULL) > 0 AND count(*) > 1"""


def _no_duplicate_pair(node: Node) -> str:
    return """SELECT partition, left_offset, right_offset, count(*) AS copies,
       min(offset) AS first_offset, max(offset) AS last_offset
FROM (SELECT partition, offset, left_offset, right_offset, true AS is_new FROM {rows}
      UNION ALL SELECT partition, offset, left_offset, right_offset, false FROM {earlier})
WHERE left_offset IS NOT NULL AND right_offset IS NOT NULL
GROUP BY partition, left_offset, right_offset
HAVING count(*) > 1 AND bool_or(is_new)"""


def _pair_in_window(node: Node) -> str:
    join = stream_stream(node)
    before, after = join.window.before, join.window.after
    return f"""SELECT partition, offset, key, left_offset, right_offset, left_key, right_key, left_timestamp,
       right_timestamp, right_timestamp - left_timestamp AS distance_ms
FROM {{made_of}}
WHERE left_offset IS NOT NULL AND right_offset IS NOT NULL
  AND NOT coalesce(key = left_key AND key = right_key AND right_timestamp BETWEEN
                   left_timestamp - ({before}L) AND left_timestamp + ({after}L), false)"""


def _alone_where_allowed(node: Node) -> str:
    wrong = {
        "inner": "left_offset IS NULL OR right_offset IS NULL",
        "left": "left_offset IS NULL",
        "outer": "left_offset IS NULL AND right_offset IS NULL",
    }[stream_stream(node).how]
    return f"""SELECT partition, offset, key, left_offset, right_offset
FROM {{rows}} WHERE {wrong}"""


def _has_value(node: Node) -> str:
    return "SELECT partition, offset, key, timestamp FROM {rows} WHERE value IS NULL"


def _made_of_values(node: Node) -> str:
    return """SELECT partition, offset, key, side, record
FROM (SELECT partition, offset, key, stack(2, 'left', left_offset, left_has_value, 'right', right_offset,
             right_has_value) AS (side, record, has_value) FROM {made_of})
WHERE NOT has_value"""


def stream_stream(node: Node) -> StreamStreamJoin:
    """The node's window join."""
    assert isinstance(node.join_spec, StreamStreamJoin), node.name
    return node.join_spec


RULES = (
    Invariant(
        id="no_spurious_one_sided_row",
        sentence="A record that is joined never also appears alone, and never twice alone.",
        document=SEMANTICS,
        section="improved left/outer stream-stream join",
        requirements=(37, 38),
        families=_STREAM_STREAM,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_no_spurious_row,
    ),
    Invariant(
        id="pair_in_window",
        sentence="Both records of a pair exist, have its key, and lie within the declared window.",
        document=KIP_77,
        section="KStream-KStream join, window predicate",
        requirements=(25,),
        families=_STREAM_STREAM,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_pair_in_window,
    ),
    Invariant(
        id="no_duplicate_pair",
        sentence="Two records are joined with each other at most once.",
        document=EARLY,
        section="output of a windowed join",
        requirements=(26, 55, 194),
        families=_STREAM_STREAM,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_no_duplicate_pair,
    ),
    Invariant(
        id="alone_only_on_outer_sides",
        sentence="Only a record of an outer side appears without a partner.",
        document=SEMANTICS,
        section="tables of inner, left and outer stream-stream join",
        families=_STREAM_STREAM,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_alone_where_allowed,
    ),
    Invariant(
        id="stream_row_has_value",
        sentence="A stream result is never a tombstone: what is missing is null inside its value.",
        document=SEMANTICS,
        section="null results, and results with a null inside",
        requirements=(14,),
        families=_STREAM_STREAM | {"stream-table", "stream-globaltable"},
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_has_value,
    ),
    Invariant(
        id="made_of_values",
        sentence="No row is made of a record without a value.",
        document=KIP_77,
        section="suggested semantics, null-valued records of a stream",
        requirements=(29,),
        families=_STREAM_STREAM,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_made_of_values,
    ),
)
