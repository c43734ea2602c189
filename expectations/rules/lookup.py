"""Invariants of look-ups: a stream's records against a table, a versioned table or a global table.

Each record's row is computed once more from the rows that the table had at the record's place in the order:

    right k a     (before the epoch)        left k A     A-a
    right k b     (in the epoch)            left k B     B-b

Source: KIP-77 (KStream-KTable join), KIP-99 (global tables), KIP-914 (versioned tables). Held by
``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from rivermeet.expectations.invariant import KIP_77, KIP_99, Invariant
from rivermeet.expectations.rules.changelog import waits
from rivermeet.expectations.rules.record_sql import joined_value, records, with_mapped_key, without_sql
from rivermeet.pipelines import Node, StreamGlobalJoin, StreamTableJoin

_GLOBAL = frozenset({"stream-globaltable"})
_LOOKED_UP = _GLOBAL | {"stream-table"}
_HEAD = "max(timestamp) OVER (PARTITION BY partition ORDER BY offset)"


def _caused_by_facts(node: Node) -> str:
    return """SELECT partition, offset, key, trigger FROM {rows}
WHERE NOT (trigger.side <=> 'left') OR trigger.offset IS NULL"""


def _row_of_every_record(node: Node) -> str:
    wrong = "<>" if _join(node).how == "left" else ">"
    return f"""SELECT * FROM (
  SELECT coalesce(x.partition, o.partition) AS partition, coalesce(x.offset, o.offset) AS record, x.key,
         x.value IS NOT NULL AS has_value, coalesce(o.copies, 0) AS copies, o.first_offset
  FROM (SELECT trigger.partition AS partition, trigger.offset AS offset, count(*) AS copies,
               min(offset) AS first_offset FROM {{rows}} GROUP BY trigger.partition, trigger.offset) o
  FULL OUTER JOIN {{new_left}} x ON x.partition = o.partition AND x.offset = o.offset)
WHERE copies {wrong} CASE WHEN has_value THEN 1 ELSE 0 END"""


def _facts(node: Node) -> str:
    """The epoch's stream records with a value: ``left``, ``mapped``, and their turn in the processing order."""
    join = _join(node)
    turn = f", struct({_HEAD} AS head, 0 AS side, partition, offset) AS turn"
    facts = f"(SELECT * FROM {records(join.left, '{new_left}', 'left', turn)} WHERE `left` IS NOT NULL)"
    return with_mapped_key(facts, "left", join.key, join.right.key)


def _compared(node: Node, found: str) -> str:
    """Rows that differ from what their records found: ``found`` has a record's place, ``left`` and ``right``."""
    value = joined_value(_join(node))
    wrong = "o.offset IS NOT NULL AND NOT (o.value <=> f.value)"
    if _join(node).how == "inner":
        wrong = "(o.offset IS NOT NULL) <> f.is_there OR (o.offset IS NOT NULL AND NOT (o.value <=> f.value))"
    return f"""SELECT f.partition, f.offset AS record, f.key, o.offset, f.value AS expected, o.value AS stored
FROM (SELECT partition, offset, key, `right` IS NOT NULL AS is_there, {value} AS value FROM ({found})) f
LEFT JOIN {{rows}} o ON o.trigger.partition = f.partition AND o.trigger.offset = f.offset
WHERE {wrong}"""


def _as_processed(node: Node) -> str:
    """Each fact with the last record of its key that was processed before it."""
    right = _join(node).right
    turn = f", struct({_HEAD} AS head, 1 AS side, partition, offset) AS turn"
    return f"""WITH facts AS (SELECT * FROM {_facts(node)}),
versions AS (
  SELECT key, NULL AS turn, `right` FROM {records(right, "{right_before:SELECT mapped AS key FROM facts}", "right")}
  UNION ALL SELECT key, turn, `right` FROM {records(right, "{new_right}", "right", turn)} WHERE key IS NOT NULL),
found AS (
  SELECT *, last_value(version) IGNORE NULLS OVER (PARTITION BY mapped ORDER BY turn
                                                   ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS seen
  FROM (SELECT partition, offset, key, `left`, mapped, turn, NULL AS version FROM facts
        UNION ALL SELECT NULL, NULL, NULL, NULL, key, turn, struct(`right`) FROM versions))
{_compared(node, "SELECT partition, offset, key, `left`, seen.`right` FROM found WHERE offset IS NOT NULL")}"""


def _as_loaded(node: Node) -> str:
    """Each fact with the global table's row as loaded; and whether the table had more when the epoch was planned."""
    right = records(_join(node).right, "{right:SELECT mapped AS key FROM facts}", "right")
    found = (
        "SELECT f.partition, f.offset, f.key, f.`left`, r.`right` FROM facts f LEFT JOIN loaded r ON r.key = f.mapped"
    )
    return f"""WITH facts AS (SELECT * FROM {_facts(node)}),
loaded AS (SELECT key, `right` FROM {right})
{_compared(node, found)}
UNION ALL
SELECT o.partition, o.trigger.offset, o.key, o.offset, NULL, o.value
FROM {{rows}} o CROSS JOIN {{unread}} u WHERE u.side = 'right'"""


def _as_of_its_time(node: Node) -> str:
    """Each fact with the version that is the newest at its time, of those put before it.

    Not judged is what history may have forgotten, and what a delete at the time of a value may have undone.
    """
    join = _join(node)
    assert isinstance(join, StreamTableJoin)
    turn = f", is_new, CASE WHEN is_new THEN struct({_HEAD} AS head, 1 AS side, partition, offset) END AS turn"
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
    return f"""WITH facts AS (SELECT * FROM {_facts(node)}),
versions AS (SELECT *, count(*) OVER (PARTITION BY key, timestamp) AS alike FROM {puts}
             WHERE key IN (SELECT mapped FROM facts))
{_compared(node, found)}"""


def _not_as_processed(node: Node) -> str | None:
    join = _join(node)
    if join.table_first:
        return "an epoch's updates of a global table come before its facts: loaded_first"
    if join.reads_history("right"):
        return "a versioned table is looked up as of the record's time: version_of_its_time"
    return without_sql(node)


def _not_as_loaded(node: Node) -> str | None:
    join = _join(node)
    if not join.table_first:
        return "updates of the global table are interleaved by timestamp: newest_version"
    if not join.right.is_stored:
        return "a view has no rows of its own; its tables are read at one position"
    if join.max_task_idle_ms != 0:
        return "records of the global table wait for slower facts, as declared"
    return without_sql(node)


def _not_as_of_its_time(node: Node) -> str | None:
    join = _join(node)
    if not join.reads_history("right"):
        return "the table is not versioned"
    return waits(node) or without_sql(node)


def _join(node: Node) -> StreamTableJoin | StreamGlobalJoin:
    assert isinstance(node.join_spec, StreamTableJoin | StreamGlobalJoin), node.name
    return node.join_spec


RULES = (
    Invariant(
        id="rows_come_from_facts",
        sentence="No row is caused by an update of the looked-up table.",
        document=KIP_99,
        section="proposed changes",
        requirements=(165,),
        families=_LOOKED_UP,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_caused_by_facts,
    ),
    Invariant(
        id="row_of_every_record",
        sentence="A record with a value gives one row, in an inner join at most one; a record without gives none.",
        document=KIP_77,
        section="KStream-KTable join, number of results",
        requirements=(29, 63),
        families=_LOOKED_UP,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_row_of_every_record,
        excluded=waits,
    ),
    Invariant(
        id="newest_version",
        sentence="A record is joined with the table's newest row of its key, none that came after it.",
        document=KIP_77,
        section="KStream-KTable join, version of the table",
        requirements=(42, 69),
        families=_LOOKED_UP,
        needs_table=False,
        severity="critical",
        blocking=False,
        stage="epoch",
        violations=_as_processed,
        excluded=_not_as_processed,
    ),
    Invariant(
        id="version_of_its_time",
        sentence="A record is joined with the version that its key had at the record's own time.",
        document=KIP_77,
        section="KStream-KTable join, version of the table",
        requirements=(69,),
        families=frozenset({"stream-table"}),
        needs_table=False,
        severity="critical",
        blocking=False,
        stage="epoch",
        violations=_as_of_its_time,
        excluded=_not_as_of_its_time,
    ),
    Invariant(
        id="loaded_first",
        sentence="A fact is joined with the global table as loaded up to all that it had when the epoch was planned.",
        document=KIP_99,
        section="proposed changes, bootstrap",
        requirements=(42, 167),
        families=_GLOBAL,
        needs_table=False,
        severity="critical",
        blocking=False,
        stage="epoch",
        violations=_as_loaded,
        excluded=_not_as_loaded,
    ),
)
