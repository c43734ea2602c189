"""Invariants of a stream's records against a versioned table; for any table: ``expectations/rules/lookups.py``.

    right k a @1, k b @5     left k A @3     A-a: the version of its own time, whatever came last

Source: KIP-77 (KStream-KTable join), KIP-914 (versioned tables). Held by ``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from typing import cast

from rivermeet.expectations.invariant import Rule
from rivermeet.expectations.rules.changelog import waits
from rivermeet.expectations.rules.derived import HEAD
from rivermeet.expectations.rules.lookups import compare, facts
from rivermeet.expectations.rules.partition import select_touched
from rivermeet.expectations.rules.record_sql import fields_of, records, without_sql
from rivermeet.pipelines import Node, StreamTableJoin
from rivermeet.pipelines.expressions import quote


def _not_as_of_its_time(node: Node) -> str | None:
    join = cast(StreamTableJoin, node.join_spec)
    if not join.reads_history("right"):
        return "the table is not versioned"
    return waits(node) or without_sql(node)


@Rule("KIP-77, KStream-KTable join, version of the table", ("stream-table",), (69,), excluded=_not_as_of_its_time)
def version_of_its_time(node: Node) -> str:
    """A record is joined with the version that its key had at the record's own time."""
    # Each fact with the newest version at its time of those put before it. What history may have forgotten is not
    # judged, nor what a delete with the timestamp of a value may have undone.
    join = cast(StreamTableJoin, node.join_spec)
    turn = f", is_new, CASE WHEN is_new THEN struct({HEAD} AS head, 1 AS side, partition, offset) END AS turn"
    puts = records(join.right, "{right}", "right", turn)
    found = f"""SELECT f.partition, f.offset, f.key, f.`left`, f.newest.`right` AS `right`
  FROM (SELECT f.partition, f.offset, any_value(f.key) AS key, any_value(f.`left`) AS `left`,
               max_by(struct(v.`right`, v.timestamp, v.alike),
                      struct(v.timestamp, v.is_new, v.turn, v.offset)) AS newest
        FROM facts f LEFT JOIN versions v ON v.key = f.mapped AND v.timestamp <= f.timestamp
                                         AND (NOT v.is_new OR v.turn < f.turn)
        GROUP BY f.partition, f.offset) f
  JOIN (SELECT partition, max(timestamp) AS newest FROM {{right}} GROUP BY partition) o ON o.partition = f.partition
  WHERE f.newest IS NULL OR (f.newest.alike = 1 AND f.newest.timestamp >= o.newest - ({join.right.history}L))"""
    return f"""WITH facts AS (SELECT * FROM {facts(node)}),
versions AS (SELECT *, count(*) OVER (PARTITION BY key, timestamp) AS alike FROM {puts}
             WHERE key IN (SELECT mapped FROM facts))
{compare(node, found)}"""


def equal_keys(node: Node) -> tuple[str, str]:
    """Keys with their partitions: of the epoch's stream records, and of the rows that have those keys.

    The window that a record picks is of its own key, and so in its partition.
    """
    join = cast(StreamTableJoin, node.join_spec)
    key = f"struct({fields_of({'key': join.left.key})})"
    tables = ("{right}",) if join.reads_history("right") else ("{right_before}", "{new_right}")
    lefts = f"SELECT {key} AS key, partition FROM {{new_left}} WHERE key IS NOT NULL"
    both = (f"SELECT {key} AS key, partition FROM {relation} WHERE key IS NOT NULL" for relation in tables)
    return lefts, select_touched(" UNION ALL ".join(both), f"(SELECT key FROM ({lefts}))")


def never_met(node: Node) -> str | None:
    """Why equal keys need not lie together."""
    join = cast(StreamTableJoin, node.join_spec)
    if any(join.key[c] != quote(c) for c in join.left.key):
        return "records look up another key than their own, in whatever partition it is"
    return None


RULES = (version_of_its_time,)
