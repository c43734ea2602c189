"""Invariants of table results: foreign-key joins, and what every folded table must keep.

A fold that is wrong about a key that it touches is found at once: the table's rows are compared with the epochs' own. A
row that came or went under another key is found by the table's size. That a value of another key was changed is found
where everything is judged: by checks run alone, or after a rebuild, and in a join by its inputs.
"""

from __future__ import annotations

from rivermeet.expectations.invariant import ANY, EARLY, KIP_77, KIP_213, SEMANTICS, Invariant, packed, quoted
from rivermeet.expectations.rules.batch import versioned
from rivermeet.expectations.rules.record_sql import last_of, right_as_left
from rivermeet.pipelines import ForeignKeyJoin, Node, TableTableJoin

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
    live, unmarked = "o.value IS NOT NULL", "value IS NOT NULL AND left_hash IS NULL"
    wrong = f"{live} AND NOT (o.left_hash <=> l.hash AND l.key IS NOT NULL)"
    if node.join_spec.how == "left":
        wrong = f"NOT (o.left_hash <=> l.hash) OR ({live}) <> (l.key IS NOT NULL)"
    # A left row is hashed before it is looked up: xxhash64 of the NULL where there is none is 42.
    return f"""WITH lefts AS (SELECT key, value FROM {{left:SELECT key FROM {{rows}}}})
SELECT o.key, o.partition, o.offset, o.left_hash, l.hash AS current_hash,
       l.key IS NOT NULL AS left_row_exists, {live} AS is_live
FROM {last_of("{rows}")} o
LEFT JOIN (SELECT key, xxhash64(value) AS hash FROM lefts) l ON l.key = o.key
WHERE ({wrong}) AND NOT (o.value IS NOT NULL AND o.left_hash IS NULL)
UNION ALL SELECT key, partition, offset, left_hash, NULL, NULL, true FROM {{rows}} WHERE {unmarked}"""


def _fold_equals_table(node: Node) -> str:
    row = packed((*node.key, *node.value, *_POSITION))
    fields = [f"key.{quoted(column)} AS {quoted(column)}" for column in node.key]
    fields += [f"value.{quoted(column)} AS {quoted(column)}" for column in node.value]
    fields += [f"{column[1:]} AS {column}" for column in _POSITION]
    return f"""SELECT CASE WHEN t.key IS NULL THEN 'not in the table'
            WHEN f.key IS NULL THEN 'only in the table' ELSE 'differs' END AS problem,
       coalesce(f.key, t.key) AS key, f.row AS folded, t.row AS stored
FROM (SELECT {packed(node.key)} AS key, {row} AS row
      FROM (SELECT {", ".join(fields)} FROM {last_of("{changelog}")} WHERE value IS NOT NULL)) f
FULL OUTER JOIN (SELECT {packed(node.key)} AS key, {row} AS row FROM {{now}}) t ON f.key <=> t.key
WHERE NOT (f.row <=> t.row)"""


def _unique_keys(node: Node) -> str:
    return f"""SELECT key, count(*) AS copies, min(_offset) AS first_offset, max(_offset) AS last_offset
FROM (SELECT {packed(node.key)} AS key, _offset FROM {{table}}) WHERE {{touched:key}}
GROUP BY key HAVING count(*) > 1"""


def _live_keys(node: Node) -> str:
    """Last row per key against both tables after the epoch."""
    join = node.join_spec
    assert isinstance(join, TableTableJoin), node.name
    there = {"inner": "l.key IS NOT NULL AND r.key IS NOT NULL", "left": "l.key IS NOT NULL"}
    must = there.get(join.how, "l.key IS NOT NULL OR r.key IS NOT NULL")
    return f"""SELECT o.key, o.partition, o.offset, o.value IS NOT NULL AS is_live, ({must}) AS must_live
FROM {last_of("{rows}")} o
LEFT JOIN (SELECT key FROM {{left:SELECT key FROM {{rows}}}}) l ON l.key = o.key
LEFT JOIN (SELECT key FROM (SELECT {right_as_left(join)} AS key FROM {{right}})
           WHERE key IN (SELECT key FROM {{rows}})) r ON r.key = o.key
WHERE (o.value IS NOT NULL) <> ({must})"""


def _tombstone_ends_a_row(node: Node) -> str:
    return f"""SELECT o.key, o.partition, o.offset
FROM (SELECT *, lag(value IS NOT NULL) OVER (PARTITION BY key ORDER BY offset) AS was_live FROM {{rows}}) o
LEFT JOIN (SELECT key FROM (SELECT {packed(node.key)} AS key FROM {{before}})
           WHERE key IN (SELECT key FROM {{rows}} WHERE value IS NULL)) b ON b.key = o.key
WHERE o.value IS NULL AND NOT coalesce(o.was_live, b.key IS NOT NULL)"""


def _grown_by_what_it_got(node: Node) -> str:
    return f"""SELECT s.before, s.after, s.before + grown AS must_be
FROM (SELECT count_if(c.live) - count_if(b.key IS NOT NULL) AS grown
      FROM (SELECT key, max_by(value IS NOT NULL, struct(epoch, offset)) AS live
            FROM {{changelog}} WHERE key IS NOT NULL GROUP BY key) c
      LEFT JOIN (SELECT {packed(node.key)} AS key FROM {{was}}) b ON b.key = c.key)
CROSS JOIN {{sizes}} s
WHERE NOT (s.after <=> s.before + grown)"""


RULES = (
    Invariant(
        id="live_keys",
        sentence="A joined row is there exactly where the tables that it needs have its key.",
        document=SEMANTICS,
        section="KTable-KTable join",
        requirements=(14, 87),
        families=_TABLE_TABLE,
        needs_table=True,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_live_keys,
        excluded=versioned,
    ),
    Invariant(
        id="tombstone_ends_a_row",
        sentence="A tombstone ends a row that was there.",
        document=KIP_77,
        section="KTable-KTable join, tombstones",
        requirements=(84,),
        families=_TABLE_TABLE | {"one-to-many"},
        needs_table=True,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_tombstone_ends_a_row,
    ),
    Invariant(
        id="foreign_key_hash",
        sentence="A key's last row was made for the current left value, and is gone with it.",
        document=KIP_213,
        section="original value hash",
        requirements=(113, 122),
        families=_FOREIGN_KEY,
        needs_table=True,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=_foreign_key_hash,
        excluded=versioned,
    ),
    Invariant(
        id="fold_equals_table",
        sentence="The table is the fold of its changelog, row by row and column by column.",
        document=EARLY,
        section="KTable, a table is the fold of its changelog",
        requirements=(85,),
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
        document=EARLY,
        section="KTable; windowed aggregate",
        requirements=(86, 184),
        families=ANY,
        profiles=None,
        needs_table=True,
        severity="critical",
        blocking=False,
        stage="table",
        violations=_unique_keys,
    ),
    Invariant(
        id="table_size",
        sentence="The table has as many rows more as its changelog began, and as many less as it ended.",
        document=EARLY,
        section="KTable, a table is the fold of its changelog",
        requirements=(85,),
        families=ANY,
        profiles=None,
        needs_table=True,
        severity="critical",
        blocking=False,
        stage="table",
        violations=_grown_by_what_it_got,
    ),
)
