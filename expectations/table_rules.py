"""Invariants of table results: foreign-key joins, and what every folded table must keep."""

from __future__ import annotations

from expectations.invariant import ANY, Invariant, packed, quoted
from pipelines import ForeignKeyJoin, Node, TableTableJoin

_FOREIGN_KEY = frozenset({"fk-table-table"})
_TABLE_TABLE = frozenset({"table-table"})
_POSITION = ("_timestamp", "_partition", "_offset")


def _foreign_key_hash(node: Node) -> str:
    """Last row per key against the left table after the epoch.

    An inner join is silent where a left change has nothing to answer (null over null), so that its
    last tombstone may be older than the left row: only what is live must fit. A left join answers
    every left change.
    """
    assert isinstance(node.join_spec, ForeignKeyJoin), node.name
    # xxhash64(NULL) is 42 and no error, so that a deleted left row is told by its key.
    hashed = "CASE WHEN l.key IS NOT NULL THEN xxhash64(l.value) END"
    live = "last.value IS NOT NULL"
    wrong = f"{live} AND NOT (last.left_hash <=> {hashed} AND l.key IS NOT NULL)"
    if node.join_spec.how == "left":
        wrong = f"NOT (last.left_hash <=> {hashed}) OR ({live}) <> (l.key IS NOT NULL)"
    return f"""SELECT o.key, last.partition, last.offset, last.left_hash, {hashed} AS current_hash,
       l.key IS NOT NULL AS left_row_exists, {live} AS is_live, without_hash
FROM (SELECT key, max_by(struct(value, left_hash, partition, offset), offset) AS last,
             count_if(value IS NOT NULL AND left_hash IS NULL) AS without_hash
      FROM {{rows}} GROUP BY key) o
LEFT JOIN {{left}} l ON l.key = o.key
WHERE without_hash > 0 OR {wrong}"""


def _fold_equals_table(node: Node) -> str:
    row = packed((*node.key, *node.value, *_POSITION))
    fields = [f"last.key.{quoted(column)} AS {quoted(column)}" for column in node.key]
    fields += [f"last.value.{quoted(column)} AS {quoted(column)}" for column in node.value]
    fields += [f"last.{column[1:]} AS {column}" for column in _POSITION]
    return f"""SELECT CASE WHEN t.key IS NULL THEN 'not in the table'
            WHEN f.key IS NULL THEN 'only in the table' ELSE 'differs' END AS problem,
       coalesce(f.key, t.key) AS key, f.row AS folded, t.row AS stored
FROM (SELECT {packed(node.key)} AS key, {row} AS row
      FROM (SELECT {", ".join(fields)}
            FROM (SELECT max_by(struct(key, value, timestamp, partition, offset), offset) AS last
                  FROM {{changelog}} WHERE key IS NOT NULL GROUP BY key)
            WHERE last.value IS NOT NULL)) f
FULL OUTER JOIN (SELECT {packed(node.key)} AS key, {row} AS row FROM {{table}}) t ON f.key <=> t.key
WHERE NOT (f.row <=> t.row)"""


def _unique_keys(node: Node) -> str:
    return f"""SELECT key, count(*) AS copies, min(_offset) AS first_offset, max(_offset) AS last_offset
FROM (SELECT {packed(node.key)} AS key, _offset FROM {{table}})
GROUP BY key HAVING count(*) > 1"""


def _live_keys(node: Node) -> str:
    """Last row per key against both tables after the epoch; a versioned table keeps the newest row, not the last."""
    join = node.join_spec
    assert isinstance(join, TableTableJoin), node.name
    there = {"inner": "l.key IS NOT NULL AND r.key IS NOT NULL", "left": "l.key IS NOT NULL"}
    must = there.get(join.how, "l.key IS NOT NULL OR r.key IS NOT NULL")
    plain = "false" if join.left.history is not None or join.right.history is not None else "true"
    right = "{right}"
    if join.window_map:
        shifted = [_moved(column, join.window_map) for column in node.key]
        right = f"(SELECT struct({', '.join(shifted)}) AS key FROM {{right}})"
    return f"""SELECT o.key, last.partition, last.offset, last.live AS is_live, ({must}) AS must_live
FROM (SELECT key, max_by(struct(value IS NOT NULL AS live, partition, offset), offset) AS last
      FROM {{rows}} GROUP BY key) o
LEFT JOIN {{left}} l ON l.key = o.key
LEFT JOIN {right} r ON r.key = o.key
WHERE {plain} AND last.live <> ({must})"""


def _moved(column: str, window_map: int) -> str:
    by = f" - {window_map}" if column in ("window_start", "window_end") else ""
    return f"key.{quoted(column)}{by} AS {quoted(column)}"


def _tombstone_ends_a_row(node: Node) -> str:
    return f"""SELECT o.key, o.partition, o.offset
FROM (SELECT *, lag(value IS NOT NULL) OVER (PARTITION BY key ORDER BY offset) AS was_live FROM {{rows}}) o
LEFT JOIN (SELECT {packed(node.key)} AS key FROM {{before}}) b ON b.key = o.key
WHERE o.value IS NULL AND NOT coalesce(o.was_live, b.key IS NOT NULL)"""


RULES = (
    Invariant(
        id="live_keys",
        sentence="A joined row is there exactly where the tables that it needs have its key.",
        source="Kafka Streams Join Semantics, KTable-KTable (76, 82, 87)",
        families=_TABLE_TABLE,
        needs_table=True,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_live_keys,
    ),
    Invariant(
        id="tombstone_ends_a_row",
        sentence="A tombstone ends a row that was there.",
        source="KIP-77, tombstones of table joins (78, 84)",
        families=_TABLE_TABLE,
        needs_table=True,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_tombstone_ends_a_row,
    ),
    Invariant(
        id="foreign_key_hash",
        sentence="A key's last row was made for the current left value, and is gone with it.",
        source="KIP-213, original value hash (122, 113, 125)",
        families=_FOREIGN_KEY,
        needs_table=True,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_foreign_key_hash,
    ),
    Invariant(
        id="fold_equals_table",
        sentence="The table is the fold of its changelog, row by row and column by column.",
        source="Early joins, a table is the fold of its changelog (85)",
        families=ANY,
        profiles=None,
        needs_table=True,
        severity="critical",
        blocking=False,
        stage="table",
        violations=_fold_equals_table,
    ),
    Invariant(
        id="unique_keys",
        sentence="A table has each key once.",
        source="Early joins, KTable (86)",
        families=ANY,
        profiles=None,
        needs_table=True,
        severity="critical",
        blocking=False,
        stage="table",
        violations=_unique_keys,
    ),
)
