"""Keys of a table's result that an epoch's input records could change, found without the result.

    table ⋈ table      left k, right k         k
    foreign key        left k                  k
                       right f                 every k that points to f
    one-to-many        one a                   every (a, b) that is stored, or refers to a
                       many b                  every (a, b) that is stored, and the one that b refers to
    aggregate          k                       the group that k is in

Relations are those of ``expectations.invariant``, and ``{stored}``: the whole folded table. A large input is read once
for its rows that an epoch affects, and these stand for it from then on. Keys of the epoch's own
rows come to these. Held by ``tests/expectations/test_scopes.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from expectations.invariant import packed, quoted
from expectations.rules.record_sql import records, with_mapped_key
from pipelines import ForeignKeyJoin, Node, OneToManyJoin, Operation, TableAggregate, TableTableJoin


@dataclass(frozen=True)
class Touched:
    """Queries that narrow a node's tables to what an epoch touches.

    Attributes
    ----------
    keys
        Query of the keys; None where only the epoch's own rows show them.
    affected
        Input to the query of its rows that the epoch affects, asked first: touched keys are found in these. A query
        sees the ones before it.
    needed
        Side to the query of the input rows that touched keys are made of; a query sees the rows of those before it.
    early
        Whether all of it can be found before the epoch is committed: by its input records and its own rows.
    """

    keys: str | None = None
    affected: Mapping[str, str] = field(default_factory=dict)
    needed: Mapping[str, str] = field(default_factory=dict)
    early: bool = False


def early(node: Node) -> bool:
    """Whether what an epoch affects can be found before it is committed."""
    return _of(node).early


def affected(node: Node) -> Mapping[str, str]:
    """Input to the query of its rows that the epoch affects."""
    return _of(node).affected


def touched(node: Node) -> str | None:
    """Query of the keys."""
    return _of(node).keys


def needed(node: Node) -> Mapping[str, str]:
    """Side to the query of the input rows that touched keys are made of."""
    return _of(node).needed


def _of(node: Node) -> Touched:
    made = FAMILIES.get(type(node.operation)) if node.operation is not None else None
    return made(node, node.operation) if made is not None else Touched()


_KEYS = "(SELECT key FROM {touched})"


def _table_table(node: Node, made: TableTableJoin) -> Touched:
    shifted = f"(SELECT *, {right_as_left(made)} AS __key FROM {{right}})"
    right = f"SELECT * EXCEPT (__key) FROM {shifted} WHERE __key IN {_KEYS}"
    return Touched(
        keys=f"""SELECT key FROM {{new_left}} WHERE key IS NOT NULL
UNION SELECT {right_as_left(made)} AS key FROM {{new_right}} WHERE key IS NOT NULL""",
        needed={"left": f"SELECT * FROM {{left}} WHERE key IN {_KEYS}", "right": right},
        early=True,
    )


def _foreign_key(node: Node, made: ForeignKeyJoin) -> Touched:
    rows = pointing_left(made, "{left_before}", ", value")
    # The rows after the epoch are those before it and its own changes: the table is read once for both.
    before = f"""SELECT key, value, timestamp, partition, offset FROM {rows}
WHERE mapped IN (SELECT key FROM {{new_right}})
   OR key IN (SELECT key FROM {{new_left}})
   OR key IN (SELECT key FROM {{changelog}})"""
    after = """SELECT b.* FROM {left_before} b LEFT ANTI JOIN {new_left} n ON n.key <=> b.key
UNION ALL SELECT key, last.*
FROM (SELECT key, max_by(struct(value, timestamp, partition, offset), offset) AS last
      FROM {new_left} WHERE key IS NOT NULL GROUP BY key)
WHERE last.value IS NOT NULL"""
    right = f"SELECT * FROM {{right}} WHERE key IN (SELECT mapped FROM {pointing_left(made, '{left}')})"
    return Touched(
        keys="SELECT key FROM {new_left} WHERE key IS NOT NULL UNION SELECT key FROM {left}",
        affected={"left_before": before, "left": after},
        needed={"right": right},
        early=True,
    )


def _one_to_many(node: Node, made: OneToManyJoin) -> Touched:
    ones, manies = "(SELECT key FROM {new_left})", "(SELECT key FROM {new_right})"
    one, many = (packed(given.key) for given in (made.left, made.right))
    stored = f"(SELECT {packed(node.key)} AS key, {one} AS one, {many} AS many FROM {{stored}})"
    many_of_key = f"struct({', '.join(f'key.{quoted(c)} AS {quoted(c)}' for c in made.right.key)})"
    left = f"SELECT * FROM {{left}} WHERE key IN (SELECT mapped FROM {pointing_right(made, '{right}')})"
    right = f"SELECT * FROM {{right}} WHERE key IN (SELECT {many_of_key} FROM {{touched}})"
    return Touched(
        keys=f"""SELECT key FROM {stored} WHERE one IN {ones} OR many IN {manies}
UNION SELECT {pair(made)} AS key FROM {pointing_right(made, "{right}")}
      WHERE mapped IS NOT NULL AND (mapped IN {ones} OR key IN {manies})""",
        needed={"right": right, "left": left},
    )


def _table_aggregate(node: Node, made: TableAggregate) -> Touched:
    rows = grouped(node, "{left}")
    inside = f"(SELECT key FROM {rows} WHERE mapped IN {_KEYS})"
    return Touched(
        keys=f"""SELECT mapped AS key FROM {rows}
WHERE mapped IS NOT NULL AND key IN (SELECT key FROM {{new_left}})""",
        needed={"left": f"SELECT * FROM {{left}} WHERE key IN {inside}"},
    )


FAMILIES: dict[type[Operation], Callable[[Node, Any], Touched]] = {
    TableTableJoin: _table_table,
    ForeignKeyJoin: _foreign_key,
    OneToManyJoin: _one_to_many,
    TableAggregate: _table_aggregate,
}
"""Operation to what an epoch of it touches; of any other, checks read the epoch's own rows."""


def right_as_left(join: TableTableJoin) -> str:
    """A right record's key as the left side has it: in the window that many ms earlier."""

    def column(name: str) -> str:
        by = f" - ({join.window_map}L)" if join.window_map and name in ("window_start", "window_end") else ""
        return f"key.{quoted(name)}{by} AS {quoted(name)}"

    return f"struct({', '.join(map(column, join.left.key))})"


def pointing_left(join: ForeignKeyJoin, relation: str, extra: str = "") -> str:
    """Left records with ``left``, and ``mapped``, the right key that each points to."""
    return with_mapped_key(records(join.left, relation, "left", extra), "left", join.foreign_key, join.right.key)


def pointing_right(join: OneToManyJoin, relation: str, extra: str = "") -> str:
    """Records of the many side with ``right``, and ``mapped``, the left key that each refers to."""
    return with_mapped_key(records(join.right, relation, "right", extra), "right", join.foreign_key, join.left.key)


def pair(join: OneToManyJoin, one: str = "mapped", many: str = "key") -> str:
    """The result's key: the columns of both keys."""
    ones = [f"{one}.{quoted(c)} AS {quoted(c)}" for c in join.left.key]
    manies = [f"{many}.{quoted(c)} AS {quoted(c)}" for c in join.right.key]
    return f"struct({', '.join((*ones, *manies))})"


def grouped(node: Node, relation: str) -> str:
    """Rows of an aggregated table with ``left``, and ``mapped``, the group that each is in."""
    made = node.operation
    assert isinstance(made, TableAggregate), node.name
    mapper = {column: e.sql for column, e in made.key.items()}
    return with_mapped_key(records(made.input, relation, "left"), "left", mapper, node.key)
