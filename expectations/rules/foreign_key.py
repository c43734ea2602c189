"""Invariants of foreign-key joins; those that joins of tables share stand in ``expectations/rules/tables.py``.

    left p {f}, right f x    the row of p has the hash of p's value; once p is another value, no row of the old one

Source: KIP-213. Held by ``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from typing import cast

from rivermeet.expectations.invariant import Rule
from rivermeet.expectations.rules.record_sql import last_of, records, with_mapped_key
from rivermeet.expectations.rules.tables import exclude_versioned
from rivermeet.pipelines import ForeignKeyJoin, Node


def _select_pointers(join: ForeignKeyJoin, relation: str) -> str:
    """Left records with ``left``, and ``mapped``, the right key that each points to."""
    return with_mapped_key(records(join.left, relation, "left"), "left", join.foreign_key, join.right.key)


def match(node: Node) -> str:
    """Rows of the batch join: ``key``, ``left``, ``right``."""
    join = cast(ForeignKeyJoin, node.join_spec)
    lefts = _select_pointers(join, "{left:touched}")
    return f"""SELECT l.key, l.`left`, r.`right` FROM {lefts} l
  {"JOIN" if join.how == "inner" else "LEFT JOIN"} {records(join.right, "{right}", "right")} r ON r.key = l.mapped"""


def points_there(node: Node) -> str:
    """Rows that a change was answered for, against those that pointed to it, before the epoch or at some time in it."""
    join = cast(ForeignKeyJoin, node.join_spec)
    before = "{left_before:SELECT key FROM {rows} WHERE trigger.side = 'right'}"
    return f"""SELECT o.partition, o.offset, o.key, o.trigger, t.key AS foreign_key
FROM {{rows}} o
JOIN {{new_right}} t ON t.partition = o.trigger.partition AND t.offset = o.trigger.offset
LEFT ANTI JOIN (SELECT key, mapped FROM {_select_pointers(join, before)}
                UNION ALL SELECT key, mapped FROM {_select_pointers(join, "{new_left}")}) p
  ON p.key = o.key AND p.mapped = t.key
WHERE o.trigger.side = 'right'"""


@Rule(
    "KIP-213, original value hash",
    ("fk-table-table",),
    (113, 122),
    needs_table=True,
    blocking=True,
    excluded=exclude_versioned,
)
def foreign_key_hash(node: Node) -> str:
    """A key's last row was made for the current left value, and is gone with it."""
    # An inner join is silent where a left change has nothing to answer (null over null), so its last tombstone may be
    # older than the left row: only what is live must fit. A left join answers every left change.
    live, unmarked = "o.value IS NOT NULL", "value IS NOT NULL AND left_hash IS NULL"
    wrong = f"{live} AND NOT (o.left_hash <=> l.hash AND l.key IS NOT NULL)"
    if cast(ForeignKeyJoin, node.join_spec).how == "left":
        wrong = f"NOT (o.left_hash <=> l.hash) OR ({live}) <> (l.key IS NOT NULL)"
    # A left row is hashed before it is looked up: xxhash64 of the NULL where there is none is 42.
    return f"""WITH lefts AS (SELECT key, value FROM {{left:SELECT key FROM {{rows}}}})
SELECT o.key, o.partition, o.offset, o.left_hash, l.hash AS current_hash,
       l.key IS NOT NULL AS left_row_exists, {live} AS is_live
FROM {last_of("{rows}")} o
LEFT JOIN (SELECT key, xxhash64(value) AS hash FROM lefts) l ON l.key = o.key
WHERE ({wrong}) AND NOT (o.value IS NOT NULL AND o.left_hash IS NULL)
UNION ALL SELECT key, partition, offset, left_hash, NULL, NULL, true FROM {{rows}} WHERE {unmarked}"""


RULES = (foreign_key_hash,)
