"""The server, a slot and a table as they are now, and what is wrong with them.

| found | refused | the cure |
|---|---|---|
| ``wal_level`` is replica; a standby | the server is unfit | set it to logical and restart; name the primary |
| another system identifier or timeline | another server, or restored | ``rivermeet resnapshot`` |
| slot gone, invalidated, or moved on by others | changes are lost | ``rivermeet resnapshot`` |
| no such table or column; another of its name | missing | mend the declaration; ``rivermeet resnapshot`` |
| a key column beside the replica identity | the log does not say which row | ``ALTER TABLE … REPLICA IDENTITY …`` |
| the publication lacks the table, or leaves out deletes | not published | ``ALTER PUBLICATION …`` |
| no SELECT on the table, no REPLICATION | a right is missing | ``GRANT …``, ``ALTER ROLE …`` |

Held by ``tests/infra/sources/postgres/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.epochs.plan import WalRange
from infra.postgres.refusals import (
    ColumnMissingError,
    IdentityError,
    NotPublishedError,
    OtherServerError,
    RightMissingError,
    ServerUnfitError,
    SlotLostError,
    TableMissingError,
    TableRefusedError,
)
from pipelines import Postgres

if TYPE_CHECKING:
    import psycopg

# The control file has the timeline of the last checkpoint, which is the old one for a while after a promotion.
_SERVER = """
SELECT (SELECT system_identifier FROM pg_control_system())::text,
       CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END,
       current_setting('wal_level'), pg_is_in_recovery(),
       (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user), current_user::text,
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE (pg_current_wal_flush_lsn() - '0/0')::bigint END,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint
"""
_SLOT = """
SELECT wal_status, coalesce(confirmed_flush_lsn - '0/0', 0)::bigint,
       coalesce(pg_current_wal_flush_lsn() - restart_lsn, 0)::bigint,
       active_pid, safe_wal_size
FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()
"""
# Of a table that was just filled the server has not counted the rows: one for each 40 bytes, which is a small row.
_TABLE = """
SELECT c.oid::bigint, c.relkind::text, c.relreplident::text, has_table_privilege(c.oid, 'SELECT'),
       greatest(c.reltuples, coalesce((SELECT sum(pg_relation_size(t.relid)) FROM pg_partition_tree(c.oid) t),
                                      pg_relation_size(c.oid)) / 40)::bigint,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
             ORDER BY a.attnum),
       ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a
          ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
        WHERE i.indrelid = c.oid AND (CASE c.relreplident WHEN 'd' THEN i.indisprimary ELSE i.indisreplident END))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_PUBLICATION = """
SELECT p.puballtables, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate,
       (SELECT r.oid::bigint FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = %s),
       EXISTS (SELECT FROM pg_publication_tables t WHERE t.pubname = p.pubname AND t.schemaname = %s
               AND t.tablename = %s),
       EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = %s
               AND (to_jsonb(r) ->> 'prqual' IS NOT NULL OR to_jsonb(r) ->> 'prattrs' IS NOT NULL))
FROM pg_publication p WHERE p.pubname = %s
"""


@dataclass(frozen=True)
class ServerState:
    """The server, and the user who asks it."""

    system: str
    timeline: int
    wal_level: str
    is_standby: bool
    may_replicate: bool
    user: str
    flushed: int
    now_ms: int


@dataclass(frozen=True)
class SlotState:
    """A slot: whether its log is kept, where it stands, bytes of log that it holds back, and who reads from it."""

    status: str | None
    confirmed: int
    held_back: int
    reader: int | None
    left: int | None


@dataclass(frozen=True)
class TableState:
    """A table and its columns; ``indexed`` are those of the index that its replica identity is, if it is one."""

    oid: int
    kind: str
    replica_identity: str
    may_read: bool
    rows: int
    columns: Sequence[str]
    indexed: Sequence[str]

    @property
    def identity(self) -> Sequence[str]:
        """What the log has of a row that is gone."""
        return self.columns if self.replica_identity == "f" else self.indexed


@dataclass(frozen=True)
class PublicationState:
    """A publication, as far as a table matters to it."""

    of_all_tables: bool
    of_all_changes: bool
    published: int | None
    has_table: bool
    is_filtered: bool


def server_state(connection: psycopg.Connection[Any]) -> ServerState:
    """The server as it is now."""
    found = connection.execute(_SERVER).fetchone()
    assert found is not None
    return ServerState(*found)


def slot_state(connection: psycopg.Connection[Any], slot: str) -> SlotState | None:
    """A slot of the database; None where it is not there."""
    found = connection.execute(_SLOT, [slot]).fetchone()
    return None if found is None else SlotState(*found)


def table_state(connection: psycopg.Connection[Any], reads: Postgres) -> TableState | None:
    """A table; None where it is not there."""
    found = connection.execute(_TABLE, reads.place).fetchone()
    return None if found is None else TableState(*found)


def publication_state(
    connection: psycopg.Connection[Any], publication: str, reads: Postgres, oid: int
) -> PublicationState | None:
    """A publication; None where it is not there."""
    found = connection.execute(_PUBLICATION, [oid, *reads.place, oid, publication]).fetchone()
    return None if found is None else PublicationState(*found)


def server_problems(server: ServerState) -> Iterator[TableRefusedError]:
    """What keeps any table of the server from being read."""
    if server.is_standby:
        yield ServerUnfitError("RIVERMEET_POSTGRES names a standby, which decodes no changes; name the primary")
    if server.wal_level != "logical":
        yield ServerUnfitError(
            f"wal_level is {server.wal_level}: ALTER SYSTEM SET wal_level = 'logical', and restart the server"
        )
    if not server.may_replicate:
        yield RightMissingError(
            f"the user may not decode changes: ALTER ROLE {server.user} REPLICATION, or what the service has for it"
        )


def table_problems(reads: Postgres, table: TableState | None, before: WalRange | None) -> Iterator[TableRefusedError]:
    """What is wrong with a table, by itself or since it was read last."""
    schema, name = reads.place
    if table is None or table.kind not in ("r", "p"):
        what = "there is no table" if table is None else "no table, but a view or something else is called"
        yield TableMissingError(f"{what} '{reads.table}'; mend the declaration, or make it")
        return
    if not table.may_read:
        yield RightMissingError(f"the user may not read '{reads.table}': GRANT SELECT ON {schema}.{name} TO it")
    lacking = [column for column in reads.columns if column not in table.columns]
    if lacking:
        yield ColumnMissingError(
            f"table '{reads.table}' has no column '{lacking[0]}', or computes it; it has {', '.join(table.columns)}: "
            "take it out of the schema"
        )
    unknown = [column for column in reads.key if column not in table.identity]
    if unknown:
        yield IdentityError(
            f"of a row of '{reads.table}' that is deleted, the log would not have '{unknown[0]}' (it has "
            f"{', '.join(table.identity) or 'nothing'}): ALTER TABLE {schema}.{name} REPLICA IDENTITY FULL, or "
            "USING INDEX of a unique one over the key; or give key= those columns"
        )
    if before is not None and before.relation != table.oid:
        yield TableMissingError(f"table '{reads.table}' was dropped and made anew: its rows are others")


def publication_problems(
    reads: Postgres, name: str, found: PublicationState | None, before: WalRange | None
) -> Iterator[TableRefusedError]:
    """What is wrong with the publication, of a table that was published before."""
    schema, table = reads.place
    if found is None:
        yield NotPublishedError(f"publication {name} is gone, and with it the changes since")
    elif not found.has_table:
        yield NotPublishedError(
            f"publication {name} lacks '{reads.table}': ALTER PUBLICATION {name} ADD TABLE {schema}.{table}; what "
            "changed meanwhile is lost"
        )
    elif before is not None and before.published != found.published:
        yield NotPublishedError(
            f"'{reads.table}' was taken out of publication {name} and put in again: what changed meanwhile is lost"
        )
    if found is not None and found.is_filtered:
        yield NotPublishedError(
            f"publication {name} leaves out rows or columns of '{reads.table}': ALTER PUBLICATION {name} SET TABLE "
            f"{schema}.{table}, and its other tables"
        )
    if found is not None and not found.of_all_changes:
        yield NotPublishedError(
            f"publication {name} leaves out changes: ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, "
            "truncate')"
        )


def slot_problems(
    slot: str, found: SlotState | None, advanced: int, server: ServerState, known: tuple[str, int]
) -> Iterator[TableRefusedError]:
    """What is wrong with the slot, which we have moved on up to ``advanced``, on the server ``known``."""
    if (server.system, server.timeline) != known:
        what = "another server" if server.system != known[0] else "restored, or a standby that took over"
        yield OtherServerError(f"the server that RIVERMEET_POSTGRES names is {what}: its log is not the one before")
        return
    if found is None or found.status == "lost":
        why = "is gone" if found is None else "was given up: it held back more than max_slot_wal_keep_size"
        yield SlotLostError(f"slot {slot} {why}, and with it the changes since")
    elif found.confirmed > advanced:
        yield SlotLostError(f"somebody else has moved slot {slot} on: the changes in between are lost")


def cured(problem: TableRefusedError, source: str, anew: bool) -> TableRefusedError:
    """The problem of a source, as ``PIPELINE.SOURCE``, with the command that goes on where only a snapshot does."""
    cure = f". `rivermeet resnapshot {source.replace('.', ' ')}` reads the table as it stands" if anew else ""
    return type(problem)(f"source '{source}': {problem}{cure}")


LOST = (OtherServerError, SlotLostError, NotPublishedError)
"""Where changes are lost, so that only a new snapshot goes on."""


def needs_snapshot(problem: TableRefusedError, before: WalRange | None) -> bool:
    """Whether nothing but a new snapshot helps."""
    return isinstance(problem, LOST) or (isinstance(problem, TableMissingError) and before is not None)


def identities(server: ServerState) -> Mapping[str, Any]:
    """What distinguishes a server and its history."""
    return {"system": server.system, "timeline": server.timeline}
