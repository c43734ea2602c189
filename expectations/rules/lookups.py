"""Invariants of look-ups: a stream's records against a table, a versioned table or a global table.

Each record's row is recomputed from the rows that the table had at the record's place in the order:

    right k a     (before the epoch)        left k A     A-a
    right k b     (in the epoch)            left k B     B-b

Source: KIP-77 (KStream-KTable join), KIP-99 (global tables), KIP-914 (versioned tables). Held by
``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from typing import cast

from rivermeet.expectations.invariant import Rule
from rivermeet.expectations.rules.changelog import waits
from rivermeet.expectations.rules.derived import HEAD
from rivermeet.expectations.rules.record_sql import join_values, records, with_mapped_key, without_sql
from rivermeet.pipelines import Node, StreamGlobalJoin, StreamTableJoin

_LOOKED_UP = ("stream-table", "stream-globaltable")


def _not_as_processed(node: Node) -> str | None:
    join = _join(node)
    if join.table_first:
        return "an epoch's updates of a global table come before its facts: loaded_first"
    if join.reads_history("right"):
        return "a versioned table is looked up as of the record's time: version_of_its_time"
    return without_sql(node)


@Rule("KIP-99, proposed changes", _LOOKED_UP, (165,), blocking=True)
def rows_come_from_facts(node: Node) -> str:
    """No row is caused by an update of the looked-up table."""
    return """SELECT partition, offset, key, trigger FROM {rows}
WHERE NOT (trigger.side <=> 'left') OR trigger.offset IS NULL"""


@Rule("KIP-77, KStream-KTable join, number of results", _LOOKED_UP, (29, 63), blocking=True, excluded=waits)
def row_of_every_record(node: Node) -> str:
    """A record with a value gives one row, in an inner join at most one; a record without gives none."""
    wrong = "<>" if _join(node).how == "left" else ">"
    return f"""SELECT * FROM (
  SELECT coalesce(x.partition, o.partition) AS partition, coalesce(x.offset, o.offset) AS record, x.key,
         x.value IS NOT NULL AS has_value, coalesce(o.copies, 0) AS copies, o.first_offset
  FROM (SELECT trigger.partition AS partition, trigger.offset AS offset, count(*) AS copies,
               min(offset) AS first_offset FROM {{rows}} GROUP BY trigger.partition, trigger.offset) o
  FULL OUTER JOIN {{new_left}} x ON x.partition = o.partition AND x.offset = o.offset)
WHERE copies {wrong} CASE WHEN has_value THEN 1 ELSE 0 END"""


def facts(node: Node) -> str:
    """The epoch's stream records with a value: ``left``, ``mapped``, and their turn in the processing order."""
    join = _join(node)
    turn = f", struct({HEAD} AS head, 0 AS side, partition, offset) AS turn"
    facts = f"(SELECT * FROM {records(join.left, '{new_left}', 'left', turn)} WHERE `left` IS NOT NULL)"
    return with_mapped_key(facts, "left", join.key, join.right.key)


def compare(node: Node, found: str) -> str:
    """Rows that differ from what their records found: ``found`` has a record's place, ``left`` and ``right``."""
    value = join_values(_join(node))
    wrong = "o.offset IS NOT NULL AND NOT (o.value <=> f.value)"
    if _join(node).how == "inner":
        wrong = "(o.offset IS NOT NULL) <> f.is_there OR (o.offset IS NOT NULL AND NOT (o.value <=> f.value))"
    return f"""SELECT f.partition, f.offset AS record, f.key, o.offset, f.value AS expected, o.value AS stored
FROM (SELECT partition, offset, key, `right` IS NOT NULL AS is_there, {value} AS value FROM ({found})) f
LEFT JOIN {{rows}} o ON o.trigger.partition = f.partition AND o.trigger.offset = f.offset
WHERE {wrong}"""


@Rule("KIP-77, KStream-KTable join, version of the table", _LOOKED_UP, (42, 69), excluded=_not_as_processed)
def newest_version(node: Node) -> str:
    """A record is joined with the newest row that the table had for its key, never with a later one."""
    # Each fact with the last record of its key that was processed before it.
    right = _join(node).right
    turn = f", struct({HEAD} AS head, 1 AS side, partition, offset) AS turn"
    return f"""WITH facts AS (SELECT * FROM {facts(node)}),
versions AS (
  SELECT key, NULL AS turn, `right` FROM {records(right, "{right_before:SELECT mapped AS key FROM facts}", "right")}
  UNION ALL SELECT key, turn, `right` FROM {records(right, "{new_right}", "right", turn)} WHERE key IS NOT NULL),
found AS (
  SELECT *, last_value(version) IGNORE NULLS OVER (PARTITION BY mapped ORDER BY turn
                                                   ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS seen
  FROM (SELECT partition, offset, key, `left`, mapped, turn, NULL AS version FROM facts
        UNION ALL SELECT NULL, NULL, NULL, NULL, key, turn, struct(`right`) FROM versions))
{compare(node, "SELECT partition, offset, key, `left`, seen.`right` FROM found WHERE offset IS NOT NULL")}"""


def _join(node: Node) -> StreamTableJoin | StreamGlobalJoin:
    return cast(StreamTableJoin | StreamGlobalJoin, node.join_spec)


RULES = (rows_come_from_facts, row_of_every_record, newest_version)
