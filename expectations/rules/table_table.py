"""Invariants of table ⋈ table on the key; those that joins of tables share stand in ``expectations/rules/tables.py``.

    left k A, right k a      live     left k NULL      no more

Source: wiki page "Kafka Streams Join Semantics" (KTable-KTable join). Held by
``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from typing import cast

from rivermeet.expectations.invariant import Rule, quote
from rivermeet.expectations.rules.partition import select_touched
from rivermeet.expectations.rules.record_sql import last_of, records
from rivermeet.expectations.rules.tables import exclude_versioned
from rivermeet.pipelines import Node, TableTableJoin


def _right_as_left(join: TableTableJoin) -> str:
    """A right record's key as the left side has it: in the window that many ms earlier."""
    by = f" - ({join.window_map}L)" if join.window_map else ""
    moved = ("window_start", "window_end")
    fields = (f"key.{quote(c)}{by if c in moved else ''} AS {quote(c)}" for c in join.left.key)
    return f"struct({', '.join(fields)})"


def match(node: Node) -> str:
    """Rows of the batch join: ``key``, ``left``, ``right``."""
    join = cast(TableTableJoin, node.join_spec)
    how = {"inner": "JOIN", "left": "LEFT JOIN", "outer": "FULL OUTER JOIN"}[join.how]
    rights = records(join.right, "{right}", "right")
    rights = f"SELECT * FROM (SELECT {_right_as_left(join)} AS key, `right` FROM {rights}) WHERE {{touched:key}}"
    lefts = records(join.left, "{left:touched}", "left")
    return f"""SELECT coalesce(l.key, r.key) AS key, l.`left`, r.`right` FROM {lefts} l
  {how} ({rights}) r ON l.key = r.key"""


def equal_keys(node: Node) -> tuple[str, str]:
    """Keys with their partitions, of both sides: those that the epoch touches."""
    as_left = f"{_right_as_left(cast(TableTableJoin, node.join_spec))} AS key"
    keys = f"(SELECT key FROM {{new_left}} UNION SELECT {as_left} FROM {{new_right}})"
    lefts = "SELECT key, partition FROM {left} UNION ALL SELECT key, partition FROM {new_left}"
    rights = (f"SELECT {as_left}, partition FROM {relation}" for relation in ("{right}", "{new_right}"))
    return select_touched(lefts, keys), select_touched(" UNION ALL ".join(rights), keys)


@Rule(
    "Kafka Streams Join Semantics, KTable-KTable join",
    ("table-table",),
    (14, 87),
    needs_table=True,
    blocking=True,
    excluded=exclude_versioned,
)
def live_keys(node: Node) -> str:
    """A joined row exists exactly where the tables that it needs have its key."""
    # Last row per key against both tables after the epoch.
    join = cast(TableTableJoin, node.join_spec)
    there = {"inner": "l.key IS NOT NULL AND r.key IS NOT NULL", "left": "l.key IS NOT NULL"}
    must = there.get(join.how, "l.key IS NOT NULL OR r.key IS NOT NULL")
    return f"""SELECT o.key, o.partition, o.offset, o.value IS NOT NULL AS is_live, ({must}) AS must_live
FROM {last_of("{rows}")} o
LEFT JOIN (SELECT key FROM {{left:SELECT key FROM {{rows}}}}) l ON l.key = o.key
LEFT JOIN (SELECT key FROM (SELECT {_right_as_left(join)} AS key FROM {{right}})
           WHERE key IN (SELECT key FROM {{rows}})) r ON r.key = o.key
WHERE (o.value IS NOT NULL) <> ({must})"""


RULES = (live_keys,)
