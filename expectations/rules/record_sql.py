"""SQL over a node's declared expressions, so that an invariant can compute a result once more by itself.

An expression of ``select`` sees the columns ``left`` and ``right``, structs of a record's key, value and
``_timestamp``, NULL where there is none; a key mapper sees the fields of one record as columns. Here both become text:

    select = {"who": "right.name"}       struct((right.name) AS `who`)
    key = {"id": "customer"}             struct(CAST((customer) AS INT) AS `id`) over the record's fields

Source: ``joins/values.py`` says what the expressions mean. Held by ``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from rivermeet.expectations.invariant import quoted
from rivermeet.pipelines import ForeignKeyJoin, Node, OneToManyJoin, TableAggregate, TableTableJoin
from rivermeet.pipelines.joins import Operation

PLACE = ("key", "timestamp", "partition", "offset")


USERS, _END = "/* users */", "/* end of users */"
"""Around a text that users wrote: what it means to an engine is not known beforehand."""


def verbatim(sql: str) -> str:
    """A declared expression inside a query: on lines of its own, with its braces kept."""
    return f"{USERS}(" + sql.replace("{", "{{").replace("}", "}}") + f"\n){_END}"


def users_expressions(query: str) -> list[str]:
    """The declared expressions inside a query."""
    between = (part.split(_END)[0] for part in query.split(USERS)[1:])
    return [part.replace("{{", "{").replace("}}", "}") for part in between]


def without_marks(query: str) -> str:
    """The query without what stands around users' texts."""
    return query.replace(USERS, "").replace(_END, "")


def record(node: Node) -> str:
    """The STRUCT that expressions see of a record; NULL where the record has no value."""
    fields = [f"key.{quoted(c)} AS {quoted(c)}" for c in node.key]
    fields += [f"value.{quoted(c)} AS {quoted(c)}" for c in node.value]
    return f"CASE WHEN value IS NOT NULL THEN struct({', '.join(fields)}, timestamp AS _timestamp) END"


def records(node: Node, relation: str, name: str, extra: str = "") -> str:
    """A subquery of a relation's records: their place, the STRUCT ``name``, and further columns."""
    return f"(SELECT {', '.join(PLACE)}, {record(node)} AS {quoted(name)}{extra} FROM {relation})"


def with_fields(records: str, name: str, added: str) -> str:
    """A subquery of records with columns ``added``, SQL over the fields of their STRUCT column ``name``."""
    # The row is packed first: a field of the record may be called like one of our own columns.
    return f"""(SELECT __row.*, {added}
    FROM (SELECT __row, __row.{quoted(name)}.* FROM (SELECT struct(*) AS __row FROM {records})))"""


def with_mapped_key(records: str, name: str, mapper: Mapping[str, str], key: Mapping[str, str]) -> str:
    """A subquery that adds ``mapped``: the key in another table that each record points to, NULL if any part is.

    Parameters
    ----------
    records
        Subquery with the STRUCT column ``name``.
    mapper
        Key column of the other table to an expression over the record's fields.
    key
        Key columns of the other table with their types.
    """
    parts = ", ".join(f"CAST({verbatim(mapper[c])} AS {kind}) AS {quoted(c)}" for c, kind in key.items())
    whole = " AND ".join(f"__mapped.{quoted(c)} IS NOT NULL" for c in key)
    found = with_fields(records, name, f"struct({parts}) AS __mapped")
    return f"(SELECT *, CASE WHEN {whole} THEN __mapped END AS mapped FROM {found})"


def last_of(relation: str) -> str:
    """A subquery of each key's last record in a changelog's records.

    By its place alone: ``max_by`` with the value in its struct costs three times as much. A key whose row has ended may
    begin again in another partition, in a later epoch.
    """
    return f"""(SELECT c.* FROM {relation} c
  LEFT SEMI JOIN (SELECT max_by(struct(partition, offset), struct(epoch, offset)) AS place
                  FROM {relation} WHERE key IS NOT NULL GROUP BY key) m
    ON m.place.partition = c.partition AND m.place.offset = c.offset)"""


def joined_value(made: Operation) -> str:
    """The value STRUCT of a result row, over columns ``left`` and ``right``."""
    columns = (f"{verbatim(str(e))} AS {quoted(c)}" for c, e in made.select.items())
    return f"struct({', '.join(columns)})"


def without_sql(node: Node) -> str | None:
    """Why a node's values cannot be computed once more: a function of the user's is no SQL."""
    made = node.operation
    columns = [c for c, e in (made.select if made else {}).items() if not isinstance(e, str)]
    return f"select gives {', '.join(columns)} as a function, which no query can repeat" if columns else None


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
