"""Invariants of stream results: windowed joins of two streams, and look-ups in a global table."""

from __future__ import annotations

from expectations.invariant import Invariant
from pipelines import Node, StreamStreamJoin

_STREAM_STREAM = frozenset({"stream-stream"})
_GLOBAL = frozenset({"stream-globaltable"})
_LOOKED_UP = _GLOBAL | {"stream-table"}

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
    join = _stream_stream(node)
    before, after = join.window.before, join.window.after
    return f"""SELECT o.partition, o.offset, o.key, o.left_offset, o.right_offset,
       l.key AS left_key, r.key AS right_key, l.timestamp AS left_timestamp,
       r.timestamp AS right_timestamp, r.timestamp - l.timestamp AS distance_ms
FROM {{rows}} o
LEFT JOIN {{left}} l ON l.partition = o.partition AND l.offset = o.left_offset
LEFT JOIN {{right}} r ON r.partition = o.partition AND r.offset = o.right_offset
WHERE o.left_offset IS NOT NULL AND o.right_offset IS NOT NULL
  AND NOT coalesce(o.key = l.key AND o.key = r.key AND r.timestamp BETWEEN
                   l.timestamp - ({before}L) AND l.timestamp + ({after}L), false)"""


def _alone_where_allowed(node: Node) -> str:
    wrong = {
        "inner": "left_offset IS NULL OR right_offset IS NULL",
        "left": "left_offset IS NULL",
        "outer": "left_offset IS NULL AND right_offset IS NULL",
    }[_stream_stream(node).how]
    return f"""SELECT partition, offset, key, left_offset, right_offset
FROM {{rows}} WHERE {wrong}"""


def _has_value(node: Node) -> str:
    return "SELECT partition, offset, key, timestamp FROM {rows} WHERE value IS NULL"


def _caused_by_facts(node: Node) -> str:
    return """SELECT partition, offset, key, trigger FROM {rows}
WHERE NOT (trigger.side <=> 'left') OR trigger.offset IS NULL"""


def _stream_stream(node: Node) -> StreamStreamJoin:
    assert isinstance(node.join_spec, StreamStreamJoin), node.name
    return node.join_spec


RULES = (
    Invariant(
        id="no_spurious_one_sided_row",
        sentence="A record that is joined never also appears alone, and never twice alone.",
        source="Kafka Streams Join Semantics, improved left/outer stream-stream join (37, 38)",
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
        source="KStream-KStream join: window predicate, both ends inclusive (25)",
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
        source="Early joins, output of a windowed join (55, 26)",
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
        source="Kafka Streams Join Semantics, tables of inner, left and outer join (32, 33)",
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
        source="Kafka Streams Join Semantics, null results and null-valued input (14, 29)",
        families=_STREAM_STREAM | _LOOKED_UP,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_has_value,
    ),
    Invariant(
        id="rows_come_from_facts",
        sentence="No row is caused by an update of the looked-up table.",
        source="KIP-99, proposed changes (165); KStream-KTable (61)",
        families=_LOOKED_UP,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_caused_by_facts,
    ),
)
