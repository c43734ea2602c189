"""Invariants of a stream's records against a global table that is loaded first: of all others ``lookups.py`` has them.

    right k a, k b     (in the epoch)     left k A     A-b: the table is loaded before the facts, whatever their times

Source: KIP-99 (global tables). Held by ``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from typing import cast

from rivermeet.expectations.invariant import Rule
from rivermeet.expectations.rules.lookups import compare, facts
from rivermeet.expectations.rules.record_sql import records, without_sql
from rivermeet.pipelines import Node, StreamGlobalJoin


def _not_as_loaded(node: Node) -> str | None:
    join = cast(StreamGlobalJoin, node.join_spec)
    if not join.table_first:
        return "updates of the global table are interleaved by timestamp: newest_version"
    if not join.right.is_stored:
        return "a view has no rows of its own; its tables are read at one position"
    if join.max_task_idle_ms != 0:
        return "records of the global table wait for slower facts, as declared"
    return without_sql(node)


@Rule("KIP-99, proposed changes, bootstrap", ("stream-globaltable",), (42, 167), excluded=_not_as_loaded)
def loaded_first(node: Node) -> str:
    """A fact is joined with the global table as it was loaded when the epoch was planned."""
    # Each fact with the global table's row as loaded; and whether the table had more when the epoch was planned.
    right = records(cast(StreamGlobalJoin, node.join_spec).right, "{right:SELECT mapped AS key FROM facts}", "right")
    found = (
        "SELECT f.partition, f.offset, f.key, f.`left`, r.`right` FROM facts f LEFT JOIN loaded r ON r.key = f.mapped"
    )
    return f"""WITH facts AS (SELECT * FROM {facts(node)}),
loaded AS (SELECT key, `right` FROM {right})
{compare(node, found)}
UNION ALL
SELECT o.partition, o.trigger.offset, o.key, o.offset, NULL, o.value
FROM {{rows}} o CROSS JOIN {{unread}} u WHERE u.side = 'right'"""


RULES = (loaded_first,)
