"""The current state of server, slot and table, and their problems.

| found | refused | the remedy |
|---|---|---|
| ``wal_level`` is replica; a standby | the server is unfit | set it to logical and restart; name the primary |
| another system identifier or timeline | another server, or restored | ``rivermeet resnapshot`` |
| slot missing, invalidated, or advanced by others | changes are lost | ``rivermeet resnapshot`` |
| no such table or column; a view; another of its name | missing | correct the declaration; ``rivermeet resnapshot`` |
| a key column outside the replica identity | the log does not identify the row | ``ALTER TABLE … REPLICA IDENTITY …`` |
| the publication lacks the table, or omits deletes | not published | ``ALTER PUBLICATION …`` |
| no USAGE on the schema, no SELECT on a column, no REPLICATION | missing privilege | ``GRANT …``, ``ALTER ROLE …`` |
| row level security that is active for the user | rows may be hidden | ``ALTER ROLE … BYPASSRLS``, or a policy |

Held by ``tests/infra/sources/postgres/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rivermeet.infra.postgres.refusals import (
    ColumnMissingError,
    IdentityError,
    NotPublishedError,
    OtherServerError,
    PostgresRefusedError,
    PostgresTableMissingError,
    RightMissingError,
    RowsHiddenError,
    ServerUnfitError,
    SlotLostError,
    TableAlteredError,
)
from rivermeet.infra.postgres.wal_range import WalRange
from rivermeet.pipelines import Postgres

if TYPE_CHECKING:
    import psycopg

# The control file has the timeline of the last checkpoint, which is the old one for a while after a promotion.
_SERVER = """
SELECT (SELECT system_identifier FROM pg_control_system())::text,
       CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END,
       current_setting('wal_level'), pg_is_in_recovery(),
       (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user), quote_ident(current_user),
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE (pg_current_wal_flush_lsn() - '0/0')::bigint END,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots)
"""
_SLOT = """
SELECT wal_status, coalesce(confirmed_flush_lsn - '0/0', 0)::bigint,
       coalesce(pg_current_wal_flush_lsn() - restart_lsn, 0)::bigint,
       active_pid, safe_wal_size
FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()
"""
# The server has not counted the rows of a table that was just filled: assume one for each 40 bytes, a small row. For a
# deleted row, the log has the replica identity of its partition, whatever that of the table is, without the INCLUDE
# columns of an index.
_TABLE = """
SELECT c.oid::bigint, c.relkind::text, c.relpersistence = 'p' AND c.oid >= 16384,
       format('%%I.%%I', n.nspname, c.relname), quote_ident(n.nspname),
       has_schema_privilege(n.oid, 'USAGE'),
       ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
             AND NOT a.attisdropped AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT')),
       row_security_active(c.oid) AND NOT (
         SELECT coalesce(bool_or(polpermissive AND shows_all), false)
                AND NOT coalesce(bool_or(NOT polpermissive AND NOT shows_all), false)
         FROM (SELECT p.polpermissive, coalesce(pg_get_expr(p.polqual, p.polrelid) = 'true', false) AS shows_all
               FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd IN ('r', '*')
               AND EXISTS (SELECT FROM unnest(p.polroles) r
                           WHERE CASE r WHEN 0 THEN true ELSE pg_has_role(r, 'USAGE') END)) policies),
       pg_has_role(c.relowner, 'USAGE'),
       greatest(c.reltuples, coalesce((SELECT sum(pg_relation_size(t.relid)) FROM pg_partition_tree(c.oid) t),
                                      pg_relation_size(c.oid)) / 40)::bigint,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
             ORDER BY a.attnum),
       (SELECT json_object_agg(format('%%I.%%I', s.nspname, l.relname),
          ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = l.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND CASE l.relreplident WHEN 'f' THEN a.attgenerated = '' ELSE EXISTS (
                  SELECT FROM pg_index i WHERE i.indrelid = l.oid
                  AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
                  AND CASE l.relreplident WHEN 'd' THEN i.indisprimary ELSE i.indisreplident END) END
                ORDER BY a.attnum))
        FROM pg_class l JOIN pg_namespace s ON s.oid = l.relnamespace
        WHERE l.oid IN (SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf)
              OR l.oid = c.oid AND NOT EXISTS (SELECT FROM pg_partition_tree(c.oid) WHERE isleaf)),
       ARRAY(SELECT relid::oid::bigint FROM pg_partition_ancestors(c.oid) WHERE relid <> c.oid),
       ARRAY(SELECT format('%%I.%%I', s.nspname, h.relname) FROM pg_inherits i JOIN pg_class h ON h.oid = i.inhrelid
             JOIN pg_namespace s ON s.oid = h.relnamespace
             WHERE i.inhparent = c.oid AND c.relkind = 'r' ORDER BY 1)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_PUBLICATION = """
SELECT p.puballtables, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, p.pubviaroot,
       pg_has_role(p.pubowner, 'USAGE'),
       (SELECT r.oid::bigint FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = %(oid)s),
       EXISTS (SELECT FROM pg_publication_tables t WHERE t.pubname = p.pubname AND t.schemaname = %(schema)s
               AND t.tablename = %(table)s),
       EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = %(oid)s
               AND (to_jsonb(r) ->> 'prqual' IS NOT NULL OR to_jsonb(r) ->> 'prattrs' IS NOT NULL)),
       (SELECT min(t.schemaname || '.' || t.tablename) FROM pg_partition_ancestors(%(oid)s::oid) a
        JOIN pg_class c ON c.oid = a.relid JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_publication_tables t ON t.schemaname = n.nspname AND t.tablename = c.relname
        WHERE p.pubviaroot AND t.pubname = p.pubname AND c.oid <> %(oid)s)
FROM pg_publication p WHERE p.pubname = %(publication)s
"""
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table, whose log is another server's"}


@dataclass(frozen=True)
class ServerState:
    """The server and the connection's user, whose name is quoted if SQL needs it."""

    system: str
    timeline: int
    wal_level: str
    is_standby: bool
    may_replicate: bool
    user: str
    flushed: int
    now_ms: int
    slots: int
    slots_used: int


@dataclass(frozen=True)
class SlotState:
    """A slot: whether its log is kept, its position, the bytes of log that it retains, and who reads from it."""

    status: str | None
    confirmed: int
    held_back: int
    reader: int | None
    left: int | None


@dataclass(frozen=True)
class TableState:
    """A table and its columns, as readable by the connection's user; names are quoted if SQL needs it.

    ``is_kept`` says whether its changes are logged: it is neither temporary nor UNLOGGED nor a system table.
    ``hides_rows`` says whether row-level security may hide rows from the user that are in the log. ``identities`` are
    the columns that the log has of a deleted row: for the table, or for each of its partitions, by name. ``ancestors``
    are the tables whose partition it is, and ``heirs`` those that inherit from it, other than partitions.
    """

    oid: int
    kind: str
    is_kept: bool
    shown: str
    schema: str
    may_use_schema: bool
    unreadable: Sequence[str]
    hides_rows: bool
    is_owned: bool
    rows: int
    columns: Sequence[str]
    identities: Mapping[str, Sequence[str]]
    ancestors: Sequence[int]
    heirs: Sequence[str]

    @property
    def is_table(self) -> bool:
        """Whether it is a table, and not a view or another relation without a log."""
        return self.kind in ("r", "p")

    @property
    def publication_name(self) -> str:
        """Its name in a publication: without heirs, which would need an identity too."""
        return f"ONLY {self.shown}" if self.heirs else self.shown


@dataclass(frozen=True)
class PublicationState:
    """A publication, as far as it concerns a table.

    ``whole`` is the partitioned table as whose changes this partition's are published; None if there is none.
    """

    of_all_tables: bool
    of_all_changes: bool
    via_root: bool
    may_alter: bool
    published: int | None
    has_table: bool
    is_filtered: bool
    whole: str | None

    def lacks(self, state: TableState) -> bool:
        """Whether the table has to be added."""
        of_leaves = state.kind == "p" and not self.via_root
        return not self.has_table and self.published is None and not (of_leaves and self.of_all_tables)


def server_state(connection: psycopg.Connection[Any]) -> ServerState:
    """The current state of the server."""
    found = connection.execute(_SERVER).fetchone()
    assert found is not None
    return ServerState(*found)


def log_end(connection: psycopg.Connection[Any]) -> int:
    """The current end of the log, flushed or not."""
    ((end,),) = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchall()
    return end


def slot_state(connection: psycopg.Connection[Any], slot: str) -> SlotState | None:
    """A slot of the database; None if it does not exist."""
    found = connection.execute(_SLOT, [slot]).fetchone()
    return None if found is None else SlotState(*found)


def table_state(connection: psycopg.Connection[Any], reads: Postgres) -> TableState | None:
    """A table; None if it does not exist."""
    found = connection.execute(_TABLE, reads.place).fetchone()
    return None if found is None else TableState(*found)


def publication_state(
    connection: psycopg.Connection[Any], publication: str, reads: Postgres, oid: int
) -> PublicationState | None:
    """A publication; None if it does not exist."""
    schema, table = reads.place
    asked = {"oid": oid, "schema": schema, "table": table, "publication": publication}
    found = connection.execute(_PUBLICATION, asked).fetchone()
    return None if found is None else PublicationState(*found)


def server_problems(server: ServerState) -> Iterator[PostgresRefusedError]:
    """Problems that prevent reading any table of the server."""
    if server.is_standby:
        yield ServerUnfitError(
            "RIVERMEET_POSTGRES names a standby, which decodes no changes; name the primary",
            variable="RIVERMEET_POSTGRES",
        )
    if server.wal_level != "logical":
        yield ServerUnfitError(
            f"wal_level is {server.wal_level}, and changing it takes a restart of the server",
            ["ALTER SYSTEM SET wal_level = 'logical'"],
            wal_level=server.wal_level,
        )
    if not server.may_replicate:
        yield RightMissingError(
            "the user may not decode changes (a service may have another word for it)",
            [f"ALTER ROLE {server.user} REPLICATION"],
            user=server.user,
        )


def table_problems(
    reads: Postgres, state: TableState | None, before: WalRange | None, user: str
) -> Iterator[PostgresRefusedError]:
    """Problems of a table, in itself or since it was last read, for a user, whose name is quoted."""
    if state is None:
        yield PostgresTableMissingError(
            f"there is no table '{reads.table}'; correct the declaration, or make it", table=reads.table
        )
        return
    if not state.is_table:
        what = _KINDS.get(state.kind, "no table")
        yield PostgresTableMissingError(
            f"'{reads.table}' is {what}, and the log has no changes of it; declare the tables that its rows come from",
            table=reads.table,
        )
        return
    if not state.may_use_schema:
        yield RightMissingError(
            f"the user may not use the schema of '{reads.table}'",
            [f"GRANT USAGE ON SCHEMA {state.schema} TO {user}"],
            table=reads.table,
        )
    if set(state.unreadable) & set(reads.columns):
        yield RightMissingError(
            f"the user may not read '{reads.table}'", [f"GRANT SELECT ON {state.shown} TO {user}"], table=reads.table
        )
    if state.hides_rows:
        yield RowsHiddenError(
            f"row level security may hide rows of '{reads.table}' from the user, and the log has their changes; let "
            f"the user see all rows, also by a policy (CREATE POLICY {POLICY} ON {state.shown} FOR SELECT TO {user} "
            "USING (true), where no RESTRICTIVE one forbids it)",
            [f"ALTER ROLE {user} BYPASSRLS"],
            table=reads.table,
        )
    lacking = [column for column in reads.columns if column not in state.columns]
    if lacking:
        yield ColumnMissingError(
            f"table '{reads.table}' has no column '{lacking[0]}', or computes it; it has {', '.join(state.columns)}: "
            "take it out of the schema",
            table=reads.table,
            column=lacking[0],
        )
    unfit = [name for name, has in state.identities.items() if not set(reads.key) <= set(has)]
    if unfit and set(reads.key) <= set(state.columns):
        has = state.identities[unfit[0]]
        unknown = next(column for column in reads.key if column not in has)
        of = "" if unfit[0] == state.shown else f", partition {unfit[0]},"
        yield IdentityError(
            f"of a row of '{reads.table}'{of} that is deleted, the log would not have '{unknown}' (it has "
            f"{', '.join(has) or 'nothing'}); give key= those columns, or an identity that has the key, also USING "
            "INDEX of a unique one",
            [f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in unfit],
            table=reads.table,
        )
    if before is not None and before.relation != state.oid:
        yield PostgresTableMissingError(
            f"table '{reads.table}' was dropped and recreated: its rows are others", table=reads.table
        )


def slot_problems(
    slot: str, found: SlotState | None, advanced: int, server: ServerState, known: tuple[str, int]
) -> Iterator[PostgresRefusedError]:
    """Problems of the slot, which we have advanced to ``advanced``, on the server ``known``."""
    if (server.system, server.timeline) != known:
        what = "another server" if server.system != known[0] else "restored, or a standby that took over"
        yield OtherServerError(
            f"the server that RIVERMEET_POSTGRES names is {what}: its log is not the one before",
            variable="RIVERMEET_POSTGRES",
        )
        return
    if found is None or found.status == "lost":
        why = "is gone" if found is None else "was given up: it held back more than max_slot_wal_keep_size"
        yield SlotLostError(f"slot {slot} {why}, and with it the changes since", slot=slot)
    elif found.confirmed > advanced:
        yield SlotLostError(f"somebody else has moved slot {slot} on: the changes in between are lost", slot=slot)


def attach_source(problem: PostgresRefusedError, source: str, needs_snapshot: bool) -> PostgresRefusedError:
    """The problem of a source ``PIPELINE.SOURCE``, with the command that continues if only a snapshot helps."""
    cure = (
        f". `rivermeet resnapshot {source.replace('.', ' ')}` takes a new snapshot of the table"
        if needs_snapshot
        else ""
    )
    named = type(problem)(f"source '{source}': {problem}{cure}", **{**problem.fields, "source": source})
    named.cure = problem.cure
    return named


POLICY = "rivermeet_sees_all"
"""Name of a policy for the user, which messages propose."""
LOST = (OtherServerError, SlotLostError, NotPublishedError, TableAlteredError, PostgresTableMissingError)
"""Errors of a table that was read before, which only a new snapshot resolves."""
