"""What rules of joins of tables (``expectations/rules/tables.py``) need to know of one-to-many.

    left  a0 A, right b0 {a0}    (a0, b0); once b0 is {a1}, no more

Source: KIP-213, the original proposal. Held by ``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from typing import cast

from rivermeet.expectations.invariant import Invariant
from rivermeet.expectations.rules.record_sql import fields_of, records, with_mapped_key
from rivermeet.pipelines import Node, OneToManyJoin


def _select_pointers(join: OneToManyJoin, relation: str) -> str:
    """Records of the many side with ``right``, and ``mapped``, the left key that each refers to."""
    return with_mapped_key(records(join.right, relation, "right"), "right", join.foreign_key, join.left.key)


def _pair(join: OneToManyJoin, one: str, many: str) -> str:
    """The result's key: the columns of both keys."""
    return f"struct({fields_of({one: join.left.key, many: join.right.key})})"


def match(node: Node) -> str:
    """Rows of the batch join: ``key``, ``left``, ``right``."""
    join = cast(OneToManyJoin, node.join_spec)
    return f"""SELECT * FROM (SELECT {_pair(join, "l.key", "m.key")} AS key, l.`left`, m.`right`
  FROM {_select_pointers(join, "{right}")} m JOIN {records(join.left, "{left}", "left")} l ON l.key = m.mapped)
WHERE {{touched:key}}"""


def points_there(node: Node) -> str:
    """Rows that a change was answered for, against those that pointed to it, before the epoch or at some time in it."""
    join = cast(OneToManyJoin, node.join_spec)
    one, many = (f"struct({fields_of({'key': part.key})})" for part in join.inputs.values())
    before = f"{{right_before:SELECT {many} AS key FROM {{rows}}}}"
    return f"""SELECT o.partition, o.offset, o.key, o.trigger, t.key AS changed
FROM (SELECT *, {one} AS one, {many} AS many FROM {{rows}}) o
JOIN (SELECT 'left' AS side, partition, offset, key AS one, NULL AS many, to_json(key) AS key FROM {{new_left}}
      UNION ALL SELECT 'right', partition, offset, NULL, key, to_json(key) FROM {{new_right}}) t
  ON t.side = o.trigger.side AND t.partition = o.trigger.partition AND t.offset = o.trigger.offset
LEFT ANTI JOIN (SELECT key, mapped FROM {_select_pointers(join, before)}
                UNION ALL SELECT key, mapped FROM {_select_pointers(join, "{new_right}")}) p
  ON p.key = o.many AND p.mapped = o.one AND coalesce(t.one = o.one, true) AND coalesce(t.many = o.many, true)"""


RULES: tuple[Invariant, ...] = ()
"""All that it must keep, other joins of tables keep as well."""
