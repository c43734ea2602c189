"""Invariants of every changelog: the shape of its records, that none is lost or duplicated, and their order."""

from __future__ import annotations

from rivermeet.expectations.invariant import ANY, COMPUTED, Rule
from rivermeet.expectations.rules.derived import HEAD
from rivermeet.pipelines import Node


def _of_one_partner(node: Node) -> str | None:
    made = node.operation
    if made is not None and made.meets_many:
        return "a record is joined with each partner in its window, under one key"
    return waits(node)


def _dense(relation: str) -> str:
    return f"""SELECT o.*, coalesce(b.first_offset, 0) AS must_start_at
FROM (SELECT partition, min(offset) AS first_offset, max(offset) AS last_offset, count(*) AS records,
             count(DISTINCT offset) AS distinct_offsets FROM {relation} GROUP BY partition) o
LEFT JOIN {{bounds}} b ON b.partition = o.partition
WHERE NOT (o.first_offset <=> coalesce(b.first_offset, 0))
   OR o.distinct_offsets <> o.records OR o.last_offset <> o.first_offset + o.records - 1"""


@Rule("Rivermeet design, record", ANY, profiles=None, blocking=True)
def record_shape(node: Node) -> str:
    """Every record has a partition, an offset and a timestamp, and in a table a key."""
    # A stream's record may have no key; a table's is found by it.
    keyless = " OR key IS NULL" if node.is_table else ""
    # Of a topic that keeps its partitions, only the broker knows how many there are.
    allowed = f"BETWEEN 0 AND {node.partitions - 1}" if node.partitions else ">= 0"
    return f"""SELECT partition, offset, key, timestamp FROM {{rows}}
WHERE timestamp IS NULL OR offset IS NULL OR epoch IS NULL{keyless}
   OR NOT coalesce(partition {allowed}, false)"""


@Rule(
    "KIP-213, original value hash, example of two quick updates",
    COMPUTED,
    (123, 194),
    blocking=True,
    excluded=_of_one_partner,
)
def one_row_per_cause(node: Node) -> str:
    """One input record causes at most one row for a key."""
    return """SELECT key, trigger, count(*) AS copies, min(offset) AS first_offset, max(offset) AS last_offset
FROM {rows} GROUP BY key, trigger HAVING count(*) > 1"""


def waits(node: Node) -> str | None:
    """Why a row's trigger does not say which record it is of."""
    made = node.operation
    if made is not None and made.delays_rows:
        return "records wait for the grace, and the row's trigger is the record that ended the wait"
    return None


@Rule("Kafka Streams Join Semantics, timestamp synchronization", COMPUTED, (193, 194))
def processing_order(node: Node) -> str:
    """Rows follow the order of their causes: by the running maximum of timestamp, the left side first."""
    # Each row's trigger has its place: (running maximum of timestamp, side, partition, offset).
    made = node.operation
    assert made is not None
    place = "head, partition, offset, place" if made.is_self_join else "head, place, partition, offset"
    arrived = " UNION ALL ".join(
        f"SELECT {at} AS place, '{side}' AS side, partition, offset, {HEAD} AS head FROM {{new_{side}}}"
        for at, side in enumerate(("left", "right"))
        if side in made.triggers
    )
    return f"""SELECT partition, offset, trigger, turn, turn_before
FROM (SELECT o.partition, o.offset, o.trigger, a.turn,
             lag(a.turn) OVER (PARTITION BY o.partition ORDER BY o.offset) AS turn_before
      FROM {{rows}} o
      LEFT JOIN (SELECT side, partition, offset, struct({place}) AS turn FROM ({arrived})) a
        ON a.side = o.trigger.side AND a.partition = o.trigger.partition AND a.offset = o.trigger.offset)
WHERE turn IS NULL OR turn < turn_before"""


@Rule(
    "Kafka Streams Join Semantics, null results, and results with a null inside",
    ("stream-stream", "stream-table", "stream-globaltable"),
    (14,),
    blocking=True,
)
def stream_row_has_value(node: Node) -> str:
    """A stream result is never a tombstone: what is missing is null inside its value."""
    return "SELECT partition, offset, key, timestamp FROM {rows} WHERE value IS NULL"


@Rule("Rivermeet design, record (determinism)", ANY, (194,), profiles=None, blocking=True)
def dense_offsets(node: Node) -> str:
    """An epoch's offsets continue where the changelog ends, without gaps or duplicates."""
    return _dense("{rows}")


@Rule("Rivermeet design, record (determinism)", ANY, (194,), profiles=None, stage="commit")
def dense_changelog(node: Node) -> str:
    """In each partition, a changelog's offsets run from 0 without gaps or duplicates."""
    return _dense("{changelog}")


RULES = (dense_offsets, dense_changelog, record_shape, one_row_per_cause, processing_order, stream_row_has_value)
