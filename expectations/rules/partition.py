"""Invariants of keys in the partitions of a topic: where its producers disagree, equal keys do not meet.

    topic of 2 partitions     key {"a":1,"b":2} in 0, key {"b":2,"a":1} in 1: one key, whose last record is unknown
    topic A, topic B          murmur2 puts k into 1, CRC-32 puts k into 0: k of A does not meet k of B

A node that declares its number of partitions places records by the hash of the decoded key, in the same way for all
sources, so both hold by construction. A node that keeps its topic's partitions depends on the producers.
What a key had is found in the folded table and in what came since; a key whose row has ended may begin again elsewhere.

Source: wiki page "Early joins" (a table is the fold of its changelog; joined inputs are co-partitioned). Held by
``tests/expectations/test_invariants.py`` and ``tests/infra/sources/kafka/test_partitions_of_keys.py``.
"""

from __future__ import annotations

from rivermeet.expectations.invariant import ANY, Rule
from rivermeet.expectations.rules.derived import of_family
from rivermeet.pipelines import Node
from rivermeet.pipelines.plural import pluralize


def _describe_hash(node: Node) -> str | None:
    if not node.partitions:
        return None
    partitions = pluralize(node.partitions, "partition")
    return f"records lie in {partitions} by the hash of the decoded key: equal keys lie together"


def _cure(node: Node) -> str:
    where = "sources" if node.operation is not None else "source"
    return (
        f"Declare partitions=N at the {where}, which puts records where the decoded key belongs, whatever wrote them, "
        f"and read the topic again with `rivermeet rebuild {node.pipeline.name}`"
    )


def _never_met(node: Node) -> str | None:
    apart = of_family(node, "never_met")
    return (apart(node) if apart is not None else None) or _describe_hash(node)


@Rule(
    "Early joins, KTable, a table is the fold of its changelog",
    ANY,
    profiles=None,
    needs_table=True,
    blocking=True,
    excluded=_describe_hash,
    cure=_cure,
)
def one_partition_per_key(node: Node) -> str:
    """A table's key has its records in one partition of the topic: of two, neither is known to have the last."""
    return """SELECT key, min(partition) AS first_partition, max(partition) AS last_partition,
       count_if(is_new) AS records
FROM (SELECT key, partition, true AS is_new FROM {rows} WHERE key IS NOT NULL
      UNION ALL SELECT key, partition, false FROM {placed:SELECT key FROM {rows}})
GROUP BY key HAVING min(partition) <> max(partition)"""


@Rule(
    "Early joins, Joins, inputs are co-partitioned",
    ("stream-stream", "stream-table", "table-table"),
    (3,),
    profiles=None,
    blocking=True,
    excluded=_never_met,
    cure=_cure,
)
def equal_keys_meet(node: Node) -> str:
    """Equal keys of both sides are in the same partition: joined topics share a partitioner."""
    # Keys that both sides have, and not in one and the same partition; of tables those that the epoch touches.
    lefts, rights = of_family(node, "equal_keys")(node)
    return f"""SELECT * FROM (
  SELECT key, min(l) AS left_first, max(l) AS left_last, min(r) AS right_first, max(r) AS right_last
  FROM (SELECT key, partition AS l, NULL AS r FROM ({lefts}) UNION ALL SELECT key, NULL, partition FROM ({rights}))
  WHERE key IS NOT NULL GROUP BY key)
WHERE least(left_first, right_first) <> greatest(left_last, right_last)
  AND left_first IS NOT NULL AND right_first IS NOT NULL"""


def select_touched(rows: str, keys: str) -> str:
    """The rows that have some keys."""
    return f"SELECT * FROM ({rows}) WHERE key IN {keys}"


RULES = (one_partition_per_key, equal_keys_meet)
