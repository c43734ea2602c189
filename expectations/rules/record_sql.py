"""SQL over a node's declared expressions, with which an invariant recomputes a result by itself.

An expression of ``select`` sees the columns ``left`` and ``right``, structs of a record's key, value and
``_timestamp``, NULL where there is none; a key mapper sees the fields of one record as columns. Here both become text:

    select = {"who": "right.name"}       struct((right.name) AS `who`)
    key = {"id": "customer"}             struct(CAST((customer) AS INT) AS `id`) over the record's fields

Source: ``joins/values.py`` says what the expressions mean. Held by ``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rivermeet.expectations.invariant import quote
from rivermeet.pipelines import Node, Operation

USERS, _END = "/* users */", "/* end of users */"
"""Marks around SQL that users wrote, which may mean something else to each engine."""


def verbatim(sql: str) -> str:
    """A declared expression inside a query: on lines of its own, with its braces kept."""
    return f"{USERS}(" + sql.replace("{", "{{").replace("}", "}}") + f"\n){_END}"


def users_expressions(query: str) -> list[str]:
    """The declared expressions inside a query."""
    between = (part.split(_END)[0] for part in query.split(USERS)[1:])
    return [part.replace("{{", "{").replace("}}", "}") for part in between]


def without_marks(query: str) -> str:
    """The query without these marks."""
    return query.replace(USERS, "").replace(_END, "")


def fields_of(structs: Mapping[str, Iterable[str]]) -> str:
    """Fields of STRUCTs, each under its own name."""
    return ", ".join(f"{struct}.{quote(c)} AS {quote(c)}" for struct, columns in structs.items() for c in columns)


def records(node: Node, relation: str, name: str, extra: str = "") -> str:
    """A subquery of a relation's records: their place, the STRUCT that expressions see, and further columns.

    The STRUCT is called ``name``; it is NULL where the record has no value.
    """
    fields = fields_of({"key": node.key, "value": node.value})
    seen = f"CASE WHEN value IS NOT NULL THEN struct({fields}, timestamp AS _timestamp) END AS {quote(name)}"
    return f"(SELECT key, timestamp, partition, offset, {seen}{extra} FROM {relation})"


def with_fields(records: str, name: str, added: str) -> str:
    """A subquery of records with columns ``added``, SQL over the fields of their STRUCT column ``name``."""
    # The row is packed first: a field of the record may be called like one of our own columns.
    return f"""(SELECT __row.*, {added}
    FROM (SELECT __row, __row.{quote(name)}.* FROM (SELECT struct(*) AS __row FROM {records})))"""


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
    parts = ", ".join(f"CAST({verbatim(mapper[c])} AS {kind}) AS {quote(c)}" for c, kind in key.items())
    whole = " AND ".join(f"__mapped.{quote(c)} IS NOT NULL" for c in key)
    found = with_fields(records, name, f"struct({parts}) AS __mapped")
    return f"(SELECT *, CASE WHEN {whole} THEN __mapped END AS mapped FROM {found})"


def last_of(relation: str) -> str:
    """A subquery of each key's last record in a changelog's records.

    Found by its place alone: ``max_by`` with the value in its struct costs three times as much. A key whose row has
    ended may begin again in another partition, in a later epoch.
    """
    return f"""(SELECT c.* FROM {relation} c
  LEFT SEMI JOIN (SELECT max_by(struct(partition, offset), struct(epoch, offset)) AS place
                  FROM {relation} WHERE key IS NOT NULL GROUP BY key) m
    ON m.place.partition = c.partition AND m.place.offset = c.offset)"""


def join_values(operation: Operation) -> str:
    """The value STRUCT of a result row, over columns ``left`` and ``right``."""
    columns = (f"{verbatim(str(e))} AS {quote(c)}" for c, e in operation.select.items())
    return f"struct({', '.join(columns)})"


def without_sql(node: Node) -> str | None:
    """Why a node's values cannot be recomputed: a user's function is not SQL."""
    made = node.operation
    columns = [c for c, e in (made.select if made else {}).items() if not isinstance(e, str)]
    return f"select gives {', '.join(columns)} as a function, which no query can repeat" if columns else None
