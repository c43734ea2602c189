"""Invariants of every changelog: the shape of its records, and that none is lost or doubled."""

from __future__ import annotations

from expectations.invariant import ANY, Invariant
from pipelines import Node

_COUNTED = """min(offset) AS first_offset, max(offset) AS last_offset,
       count(*) AS records, count(DISTINCT offset) AS distinct_offsets"""


def _dense_offsets(node: Node) -> str:
    return f"""SELECT o.*, coalesce(b.first_offset, 0) AS must_start_at
FROM (SELECT partition, {_COUNTED}
      FROM {{rows}} GROUP BY partition) o
LEFT JOIN {{bounds}} b ON b.partition = o.partition
WHERE NOT (o.first_offset <=> coalesce(b.first_offset, 0))
   OR o.distinct_offsets <> o.records OR o.last_offset <> o.first_offset + o.records - 1"""


def _dense_changelog(node: Node) -> str:
    return f"""SELECT partition, {_COUNTED}
FROM {{changelog}} GROUP BY partition
HAVING NOT (first_offset <=> 0) OR distinct_offsets <> records
    OR last_offset <> first_offset + records - 1"""


def _record_shape(node: Node) -> str:
    # A stream's record may have no key; a table's is found by it.
    keyless = " OR key IS NULL" if node.is_table else ""
    return f"""SELECT partition, offset, key, timestamp FROM {{rows}}
WHERE timestamp IS NULL OR offset IS NULL OR epoch IS NULL{keyless}
   OR NOT coalesce(partition BETWEEN 0 AND {max(node.partitions, 1) - 1}, false)"""


def _one_row_per_cause(node: Node) -> str:
    return """SELECT key, trigger, count(*) AS copies, min(offset) AS first_offset, max(offset) AS last_offset
FROM {rows} GROUP BY key, trigger HAVING count(*) > 1"""


RULES = (
    Invariant(
        id="dense_offsets",
        sentence="An epoch's offsets go on where the changelog ends, without hole or double.",
        source="Rivermeet design, section 3 (determinism: 194)",
        families=ANY,
        profiles=None,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_dense_offsets,
    ),
    Invariant(
        id="dense_changelog",
        sentence="A changelog's offsets run from 0 without hole or double, in each partition.",
        source="Rivermeet design, section 3 (determinism: 194)",
        families=ANY,
        profiles=None,
        needs_table=False,
        severity="critical",
        blocking=False,
        stage="table",
        violations=_dense_changelog,
    ),
    Invariant(
        id="record_shape",
        sentence="Every record has its place and time, and in a table its key.",
        source="Rivermeet design, section 3",
        families=ANY,
        profiles=None,
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_record_shape,
    ),
    Invariant(
        id="one_row_per_cause",
        sentence="One input record causes at most one row for a key.",
        source="KIP-213, example of two quick updates (123); KStream-KTable, number of rows (63)",
        families=frozenset({"stream-globaltable", "fk-table-table"}),
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_one_row_per_cause,
    ),
)
