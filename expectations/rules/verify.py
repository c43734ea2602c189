"""What ``rivermeet verify`` proves, recorded in the history like an invariant; runs do not judge it.

A verified epoch is one more replay beside the fold that each run compares:

    fold_equals_table   every epoch           the table is the fold of its changelog
    verify              when requested        the changelog is what its inputs give

``{recomputed}`` has the recomputed rows of all epochs, in the columns of a changelog. Where the changelog has a place
twice, its second row counts as one that is not recomputed:

    changelog     (0, 5) a      (0, 5) a      (0, 6) b      (0, 8) c
    recomputed    (0, 5) a                    (0, 6) x      (0, 7) d

    (0, 5) a, none      (0, 6) b, x      (0, 7) none, d      (0, 8) c, none

Held by ``tests/expectations/test_verify_rule.py``.
"""

from __future__ import annotations

from rivermeet.expectations.invariant import ANY, Rule
from rivermeet.pipelines import Node


@Rule("Rivermeet design, epochs, verify", ANY, profiles=None, stage="verify")
def verify(node: Node) -> str:
    """Recomputed from all that it has read, a node has exactly the rows that it has committed."""
    # Rows by place: `partition`, `offset`, `committed` and `recomputed`, NULL where there is none.
    rows = "SELECT partition, offset, struct(key, value, timestamp) AS row FROM"
    # Only places that come twice are numbered: a window over all rows would hold them all.
    twice = "SELECT partition, offset FROM {changelog} GROUP BY partition, offset HAVING count(*) > 1"
    return f"""SELECT coalesce(c.partition, r.partition) AS partition, coalesce(c.offset, r.offset) AS offset,
       c.row AS committed, r.row AS recomputed
FROM ({rows} {{changelog}}) c
FULL OUTER JOIN ({rows} {{recomputed}}) r ON c.partition = r.partition AND c.offset = r.offset
WHERE NOT (c.row <=> r.row)
UNION ALL
SELECT partition, offset, row, NULL
FROM (SELECT c.*, row_number() OVER (PARTITION BY c.partition, c.offset ORDER BY c.epoch) AS copy
      FROM (SELECT partition, offset, epoch, struct(key, value, timestamp) AS row FROM {{changelog}}) c
      LEFT SEMI JOIN ({twice}) t ON t.partition = c.partition AND t.offset = c.offset)
WHERE copy > 1
ORDER BY partition, offset"""


VERIFY = verify
