"""Invariants of keys in the partitions of a topic: where its writers disagree, equal keys do not meet.

    topic of 2 partitions     key {"a":1,"b":2} in 0, key {"b":2,"a":1} in 1: one key, and nobody knows what came last
    topic A, topic B          murmur2 puts k into 1, CRC-32 puts k into 0: k of A does not meet k of B

A node with a number of partitions of its own has records where the hash of the decoded key puts them, the same for all
sources, so that both hold by construction. A node that keeps its topic's partitions is at the mercy of the producers.
What a key had is found in the folded table and in what came since; a key whose row has ended may begin anew elsewhere.

Source: wiki page "Early joins" (a table is the fold of its changelog; joined inputs are co-partitioned). Held by
``tests/expectations/test_invariants.py`` and ``tests/infra/sources/kafka/test_partitions_of_keys.py``.
"""

from __future__ import annotations

from collections.abc import Iterable

from rivermeet.expectations.invariant import ANY, EARLY, Invariant, quoted
from rivermeet.expectations.rules.record_sql import right_as_left
from rivermeet.pipelines import Node, StreamTableJoin, TableTableJoin
from rivermeet.pipelines.source import quoted as quoted_name


def _of_one_key(node: Node) -> str:
    return """SELECT key, min(partition) AS first_partition, max(partition) AS last_partition,
       count_if(is_new) AS records
FROM (SELECT key, partition, true AS is_new FROM {rows} WHERE key IS NOT NULL
      UNION ALL SELECT key, partition, false FROM {placed:SELECT key FROM {rows}})
GROUP BY key HAVING min(partition) <> max(partition)"""


def _of_equal_keys(node: Node) -> str:
    """Keys that both sides have, and not in one and the same partition; of tables those that the epoch touches."""
    made = node.operation
    assert made is not None, node.name
    if made.open_ms is not None:
        lefts, rights = "SELECT key, partition FROM {left}", "SELECT key, partition FROM {right}"
    elif isinstance(made, TableTableJoin):
        as_left = f"{right_as_left(made)} AS key"
        touched = f"(SELECT key FROM {{new_left}} UNION SELECT {as_left} FROM {{new_right}})"
        lefts = _touched("SELECT key, partition FROM {left} UNION ALL SELECT key, partition FROM {new_left}", touched)
        both = (f"SELECT {as_left}, partition FROM {relation}" for relation in ("{right}", "{new_right}"))
        rights = _touched(" UNION ALL ".join(both), touched)
    else:
        # The window that a record picks is of its own key, and so in its partition.
        key = _struct(made.inputs["left"].key)
        tables = ("{right}",) if made.reads_history("right") else ("{right_before}", "{new_right}")
        lefts = f"SELECT {key} AS key, partition FROM {{new_left}} WHERE key IS NOT NULL"
        both = (f"SELECT {key} AS key, partition FROM {relation} WHERE key IS NOT NULL" for relation in tables)
        rights = _touched(" UNION ALL ".join(both), f"(SELECT key FROM ({lefts}))")
    return f"""SELECT * FROM (
  SELECT key, min(l) AS left_first, max(l) AS left_last, min(r) AS right_first, max(r) AS right_last
  FROM (SELECT key, partition AS l, NULL AS r FROM ({lefts}) UNION ALL SELECT key, NULL, partition FROM ({rights}))
  WHERE key IS NOT NULL GROUP BY key)
WHERE least(left_first, right_first) <> greatest(left_last, right_last)
  AND left_first IS NOT NULL AND right_first IS NOT NULL"""


def _touched(rows: str, keys: str) -> str:
    return f"SELECT * FROM ({rows}) WHERE key IN {keys}"


def _struct(columns: Iterable[str]) -> str:
    return f"struct({', '.join(f'key.{quoted(c)} AS {quoted(c)}' for c in columns)})"


def _hashed(node: Node) -> str | None:
    if not node.partitions:
        return None
    return f"records lie in {node.partitions} partitions by the hash of the decoded key: equal keys lie together"


def _never_met(node: Node) -> str | None:
    made = node.operation
    if isinstance(made, StreamTableJoin) and any(made.key[c] != quoted_name(c) for c in made.left.key):
        return "records look up another key than their own, wherever it lies"
    return _hashed(node)


def _cure(node: Node) -> str:
    where = "sources" if node.operation is not None else "source"
    return (
        f"Declare partitions=N at the {where}, which puts records where the decoded key belongs, whoever wrote them, "
        f"and read the topic anew with `rivermeet rebuild {node.pipeline.name}`"
    )


RULES = (
    Invariant(
        id="one_partition_per_key",
        sentence="A table's key has its records in one partition of the topic: between two, nobody knows the last.",
        document=EARLY,
        section="KTable, a table is the fold of its changelog",
        families=ANY,
        profiles=None,
        needs_table=True,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_of_one_key,
        excluded=_hashed,
        cure=_cure,
    ),
    Invariant(
        id="equal_keys_meet",
        sentence="Equal keys of both sides lie in the same partition: joined topics have one partitioner.",
        document=EARLY,
        section="Joins, inputs are co-partitioned",
        requirements=(3,),
        families=frozenset({"stream-stream", "stream-table", "table-table"}),
        profiles=None,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_of_equal_keys,
        excluded=_never_met,
        cure=_cure,
    ),
)
