"""The server's catalog entries of a table, and changes of the table since that are not in the log.

| since | seen by | then |
|---|---|---|
| ``ALTER COLUMN … TYPE`` | a column's type; a new file, and the column's row | altered |
| ``DROP`` and ``ADD`` of a column; names swapped | another number of the column | altered |
| ``ALTER TYPE … RENAME VALUE``, ``ADD ATTRIBUTE`` | rows of ``pg_enum``, attributes of a composite type | altered |
| a partition detached, dropped, attached with rows, truncated by itself | its link, or its file | altered |
| ``TRUNCATE`` of the table | a file of a transaction that is in the log | read |
| ``VACUUM FULL``, ``CLUSTER``, ``SET TABLESPACE`` | a new file with an earlier row | read |
| an undeclared column, a label, an empty partition | everything known is still there | read |
| the publication's options, filter or tables, also changed back | other rows of the catalog | altered |

Rows of the catalog are compared by the transaction that wrote them (``xmin``), which freezing does not change; a dump
or an upgrade counts as another server. A statement that rewrites a table gives all rows its own transaction,
unless it only moves them. So a row that is older than the known state proves that its file was
only moved since. Held by ``tests/infra/postgres/test_catalog.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from rivermeet.infra.postgres.refusals import NotLoggedError, NotPublishedError, PostgresRefusedError, TableAlteredError
from rivermeet.infra.postgres.wal_range import KnownColumn, KnownRelation, KnownTable
from rivermeet.pipelines import Postgres

if TYPE_CHECKING:
    import psycopg

# One statement, for a consistent view. Built-in types have no parts that could be altered. A partition
# that was created as one has a column written by the same command as itself: ATTACH rewrites all of them.
_CATALOG = """
WITH RECURSIVE declared AS (
  SELECT attname, attnum, atttypid, atttypmod, xmin FROM pg_attribute
  WHERE attrelid = %(oid)s AND attnum > 0 AND NOT attisdropped AND attname = ANY (%(columns)s)
), types AS (
  SELECT atttypid AS oid FROM declared
  UNION
  SELECT part FROM types JOIN pg_type y ON y.oid = types.oid CROSS JOIN LATERAL (
    SELECT unnest(ARRAY[y.typelem, y.typbasetype]) UNION
    SELECT r.rngsubtype FROM pg_range r WHERE y.oid IN (r.rngtypid, (to_jsonb(r) ->> 'rngmultitypid')::oid) UNION
    SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = y.typrelid AND a.attnum > 0 AND NOT a.attisdropped
  ) parts (part) WHERE y.oid >= 16384
), parts (key, text) AS (
  SELECT 'label ' || e.oid, e.enumlabel || ' ' || e.xmin FROM types JOIN pg_enum e ON e.enumtypid = types.oid
  UNION ALL
  SELECT 'type ' || y.oid, string_agg(concat_ws(' ', a.attnum, a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
  FROM types JOIN pg_type y ON y.oid = types.oid JOIN pg_attribute a ON a.attrelid = y.typrelid
  WHERE y.oid >= 16384 AND y.typrelid <> 0 AND a.attnum > 0 AND NOT a.attisdropped GROUP BY y.oid
), tree AS (
  SELECT %(oid)s::oid AS oid, NULL::text AS link, '{}'::bigint[] AS above
  UNION ALL
  SELECT i.inhrelid, i.xmin::text, tree.above || tree.oid::bigint
  FROM tree JOIN pg_class p ON p.oid = tree.oid AND p.relkind = 'p' JOIN pg_inherits i ON i.inhparent = tree.oid
), relations AS (
  SELECT tree.oid::bigint, format('%%I.%%I', n.nspname, c.relname) AS shown, c.relname, c.relfilenode::bigint,
         tree.link::bigint, n.nspname AS schema, c.relkind AS kind, c.relpersistence AS persistence,
         tree.above, c.xmin::text::bigint AS written_by,
         EXISTS (SELECT FROM pg_attribute a JOIN pg_attribute s ON s.attrelid = a.attrelid AND s.attnum = -6
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                 AND a.xmin = s.xmin AND a.cmin::text = s.cmin::text) AS is_born_partition,
         EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.xmin = c.xmin
                 AND a.attname <> ALL (%(columns)s)) AS has_others_altered,
         c.relkind <> 'r' OR coalesce(pg_relation_size(c.oid), 0) = 0 AS is_empty,
         has_table_privilege(c.oid, 'SELECT') AS may_read
  FROM tree JOIN pg_class c ON c.oid = tree.oid JOIN pg_namespace n ON n.oid = c.relnamespace
), own AS (
  SELECT %(oid)s::oid AS oid UNION SELECT relid FROM pg_partition_ancestors(%(oid)s::oid)
), published AS (
  SELECT concat_ws(' ', 'publication', p.oid, p.xmin) AS row FROM pg_publication p WHERE p.pubname = %(publication)s
  UNION ALL
  SELECT concat_ws(' ', 'table', r.oid, r.xmin) FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
  WHERE p.pubname = %(publication)s AND r.prrelid IN (SELECT oid FROM own)
  SCHEMAS
)
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       (SELECT json_agg(json_build_array(attname, attnum, atttypid::bigint, atttypmod, xmin::text::bigint))
        FROM declared),
       (SELECT json_agg(parts) FROM parts),
       (SELECT json_agg(relations) FROM relations),
       ARRAY(SELECT row FROM published ORDER BY row)
"""
# From 15 on.
_SCHEMAS = """
  UNION ALL
  SELECT concat_ws(' ', 'schema', s.oid, s.xmin)
  FROM pg_publication p JOIN pg_publication_namespace s ON s.pnpubid = p.oid
  WHERE p.pubname = %(publication)s
    AND s.pnnspid IN (SELECT relnamespace FROM pg_class WHERE oid IN (SELECT oid FROM own))
"""
_TEXTS = frozenset({25, 1043})
"""Types text and varchar, whose values have the same bytes."""


@dataclass(frozen=True)
class Relation:
    """A table or a partition as it is now; ``shown`` is its name, quoted for SQL, and ``known`` what is stored of it.

    ``above`` are its parent relations, from the table down. ``written_by`` is the transaction that last wrote its row
    in ``pg_class``: the one that created its file, if none came later. ``has_others_altered`` says whether that
    transaction wrote the row of an undeclared column.
    """

    oid: int
    shown: str
    schema: str
    kind: str
    persistence: str
    known: KnownRelation
    above: tuple[int, ...]
    written_by: int
    is_born_partition: bool
    has_others_altered: bool
    is_empty: bool
    may_read: bool


@dataclass(frozen=True)
class Catalog:
    """The current catalog of a table: the state that is stored, and details for when it has changed."""

    known: KnownTable
    relations: Mapping[int, Relation]


def catalog(connection: psycopg.Connection[Any], reads: Postgres, publication: str, oid: int) -> Catalog:
    """Read the catalog of a table; in a transaction with a snapshot, as of the snapshot."""
    schemas = _SCHEMAS if connection.info.server_version >= 150_000 else ""
    asked = {"oid": oid, "columns": list(reads.columns), "publication": publication}
    found = connection.execute(_CATALOG.replace("SCHEMAS", schemas).encode(), asked).fetchone()
    assert found is not None
    horizon, columns, types, relations, published = found
    parts = [_relation(**row) for row in relations or ()]
    known = KnownTable(
        horizon=horizon,
        columns={
            name: KnownColumn(number=number, type=kind, modifier=modifier, written_by=xid)
            for name, number, kind, modifier, xid in columns or ()
        },
        types={row["key"]: row["text"] for row in types or ()},
        relations={relation.oid: relation.known for relation in parts},
        published=tuple(published),
    )
    return Catalog(known, {relation.oid: relation for relation in parts})


def _relation(relname: str, relfilenode: int, link: int | None, **more: Any) -> Relation:
    return Relation(known=KnownRelation(name=relname, file=relfilenode, link=link), **more)


def log_problems(reads: Postgres, now: Catalog) -> Iterator[PostgresRefusedError]:
    """Problems of a table's partitions whose changes are not logged."""
    for relation in now.relations.values():
        if relation.above and relation.persistence != "p":
            yield NotLoggedError(
                f"the log has no changes of '{relation.shown}', a partition of '{reads.table}' that is not LOGGED",
                [f"ALTER TABLE {relation.shown} SET LOGGED"],
                table=reads.table,
            )
        elif relation.kind == "f":
            yield NotLoggedError(
                f"the log has no changes of '{relation.shown}', a partition of '{reads.table}' on another server: "
                "detach it, or read its other partitions",
                table=reads.table,
            )


@dataclass(frozen=True)
class Alterations:
    """Changes of a table between two readings of its catalog that are not in the log.

    ``truncates`` returns the transactions of the log that have truncated the table. Without it a new file counts as
    lost rows, unless it has an earlier row.
    """

    connection: psycopg.Connection[Any]
    reads: Postgres
    publication: str
    before: KnownTable
    now: Catalog
    truncates: Callable[[], Collection[int]] | None = None

    def problems(self) -> Iterator[PostgresRefusedError]:
        """All of it, each as a refusal."""
        published = self.now.known.published
        # One that is gone is another refusal.
        if published and set(self.before.published) - set(published):
            yield NotPublishedError(
                f"publication {self.publication} was altered, or what it has of '{self.reads.table}' was, maybe there "
                "and back: changes meanwhile may be lost",
                table=self.reads.table,
            )
        for what in chain(self._columns(), self._types(), self._partitions(), self._files()):
            yield TableAlteredError(
                f"table '{self.reads.table}': {what}, and the log does not say which rows that changed",
                table=self.reads.table,
            )

    def _columns(self) -> Iterator[str]:
        for name, was, now in self._both():
            same_bytes = was.type == now.type or {was.type, now.type} <= _TEXTS
            if was.number != now.number:
                yield f"column '{name}' is another one than before"
            elif (was.type, was.modifier) != (now.type, now.modifier) and (not same_bytes or self._rewritten):
                yield f"column '{name}' got another type"

    def _types(self) -> Iterator[str]:
        now = self.now.known.types
        kinds = {key.split()[0] for key, was in self.before.types.items() if now.get(key, was) != was}
        if "label" in kinds:
            yield "a column's enum has another label for a value"
        if "type" in kinds:
            yield "a column's composite type has other attributes"

    def _partitions(self) -> Iterator[str]:
        for oid, was in self.before.relations.items():
            now = self.now.known.relations.get(oid)
            if now is None:
                yield f"partition '{was.name}' was detached or dropped"
            elif now.link != was.link:
                yield f"partition '{was.name}' was detached for a while"
        for relation in self.now.relations.values():
            if relation.oid not in self.before.relations and not self._came_empty(relation):
                yield f"partition '{relation.known.name}' was attached with rows"

    def _files(self) -> Iterator[str]:
        for relation in self._rewritten:
            of = f" of partition '{relation.known.name}'" if relation.above else ""
            yield f"all rows{of} were rewritten, or removed"

    @cached_property
    def _rewritten(self) -> list[Relation]:
        """Relations with a new file that has no harmless explanation."""
        files = [relation for relation in self.now.relations.values() if relation.kind == "r"]
        found = [relation for relation in files if relation.known.file != self._file_before(relation)]
        return [relation for relation in found if not self._is_harmless(relation)]

    def _file_before(self, relation: Relation) -> int:
        was = self.before.relations.get(relation.oid)
        if was is not None:
            return was.file
        # The file of a new table has the table's number; that of an attached and empty one may have any.
        return relation.oid if relation.is_born_partition else relation.known.file

    def _is_harmless(self, relation: Relation) -> bool:
        if relation.oid in self.before.relations and self._has_old_rows(relation):
            return True
        if self.truncates is None:
            return False
        if relation.written_by in self.truncates():
            return True
        if any(was.written_by != now.written_by for _, was, now in self._both()):
            return False
        # A table that is published by name cannot have been UNLOGGED, and each TRUNCATE of it is in the log.
        is_named = any(row.startswith("table ") for row in self.now.known.published)
        return relation.has_others_altered or (not relation.above and is_named)

    def _has_old_rows(self, relation: Relation) -> bool:
        from psycopg import sql

        if not relation.may_read:
            return False
        asked = sql.SQL("SELECT EXISTS (SELECT FROM ONLY {} WHERE age(xmin) > age(%s::text::xid))")
        place = sql.Identifier(relation.schema, relation.known.name)
        horizon = str(self.before.horizon % (1 << 32))
        ((found,),) = self.connection.execute(asked.format(place), [horizon]).fetchall()
        return found

    def _came_empty(self, relation: Relation) -> bool:
        """Whether all present and past rows of a new partition came through the table."""
        new = [oid for oid in relation.above[1:] if oid not in self.before.relations]
        if not all(self.now.relations[oid].is_born_partition for oid in new):
            return False
        # An attached partition without pages that was not altered since.
        untouched = relation.kind == "r" and relation.is_empty and relation.written_by == relation.known.link
        return relation.is_born_partition or untouched

    def _both(self) -> Iterator[tuple[str, KnownColumn, KnownColumn]]:
        for name, was in self.before.columns.items():
            now = self.now.known.columns.get(name)
            if now is not None:
                yield name, was, now
