"""The publication of a pipeline in a database, with all tables that its sources read and all of their changes.

| the publication | a source that is read for the first time |
|---|---|
| does not exist, or lacks the table | creates it, or adds the table, with all others that the pipeline reads there |
| and the user may not | is refused, with the statements for a user who may |
| omits changes, rows or columns, or names partitions in place of their table | is refused, with the statements |

The statements cover all tables of the pipeline, so they are the same for every source. The publication has to
exist before the slot's position, because changes are decoded with the catalog of their time. If several sources find it
missing at the same time, it is created once. Held by ``tests/infra/sources/postgres/test_published.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rivermeet.infra.postgres.refusals import NotPublishedError, PostgresRefusedError
from rivermeet.infra.postgres.state import PublicationState, TableState, publication_state, table_state
from rivermeet.infra.postgres.wal_range import WalRange
from rivermeet.pipelines import Postgres, limits

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True)
class Publication:
    """The current state of a publication, for the tables that a pipeline reads in a database.

    The name is derived from the pipeline's, such that SQL needs no quotes. ``tables`` are those that can be published,
    by their declared names, with their state in the publication.
    """

    name: str
    may_create: bool
    tables: Mapping[str, tuple[TableState, PublicationState | None]]

    def problems(self, reads: Postgres, before: WalRange | None) -> Iterator[PostgresRefusedError]:
        """Problems of a table's publication, except those that its first run fixes itself."""
        if reads.table not in self.tables:
            return

        def problem(what: str, cure: Sequence[str] = ()) -> NotPublishedError:
            return NotPublishedError(what, cure, publication=self.name, table=reads.table)

        table, found = self.tables[reads.table]
        whole = self._whole(table, found)
        if whole is not None:
            yield problem(
                f"'{reads.table}' is a partition of {whole}, and publication {self.name} has its changes as those of "
                "the whole: read the whole, or the partition in a pipeline of its own"
            )
            return
        if found is None:
            if before is not None:
                yield problem(f"publication {self.name} is gone, and with it the changes since", self.cure)
            elif not self._may_publish(table, found):
                yield problem(
                    f"there is no publication {self.name} for '{reads.table}', and the user may not make it", self.cure
                )
            return
        if found.lacks(table):
            if before is not None or not self._may_publish(table, found):
                lost = "; what changed meanwhile is lost" if before is not None else ""
                yield problem(f"publication {self.name} lacks '{reads.table}'{lost}", self.cure)
        elif before is not None and before.published != found.published:
            yield problem(
                f"'{reads.table}' was taken out of publication {self.name} and put in again: what changed meanwhile is "
                "lost"
            )
        if table.kind == "p" and not found.via_root:
            what = "has changes of its partitions in the place of those of"
            yield problem(f"publication {self.name} {what} '{reads.table}'", self.cure)
        if found.is_filtered:
            yield problem(f"publication {self.name} leaves out rows or columns of '{reads.table}'", self.cure)
        if not found.of_all_changes:
            yield problem(f"publication {self.name} leaves out changes", self.cure)

    @property
    def cure(self) -> Sequence[str]:
        """The statements that correct it for all of the tables, in order."""
        return list(self._statements({table.shown: table for table, _ in self.tables.values()}))

    def addition(self, reads: Postgres) -> str:
        """The statement that adds a table, with all other missing ones that the user may add."""
        own, _ = self.tables[reads.table]
        lacking = {own.shown: own} | {
            table.shown: table
            for table, found in self.tables.values()
            # Once a table is published whose deleted rows the log does not identify, the server refuses every UPDATE.
            if (found is None or found.lacks(table))
            and self._may_publish(table, found)
            and all(table.identities.values())
        }
        return self._add_statement(lacking, self._state is None)

    @property
    def _state(self) -> PublicationState | None:
        return next((found for _, found in self.tables.values()), None)

    def _statements(self, tables: Mapping[str, TableState]) -> Iterator[str]:
        state = self._state
        if state is None:
            yield self._add_statement(tables, True)
            return
        options = []
        if not state.of_all_changes:
            options.append("publish = 'insert, update, delete, truncate'")
        if not state.via_root and any(table.kind == "p" for table in tables.values()):
            options.append("publish_via_partition_root = true")
        if options:
            yield f"ALTER PUBLICATION {self.name} SET ({', '.join(options)})"
        lacking = {t.shown: t for t, found in self.tables.values() if found is not None and found.lacks(t)}
        if lacking and not state.of_all_tables:
            yield self._add_statement(lacking, False)
        filtered = {
            t.publication_name: t for t, found in self.tables.values() if found is not None and found.is_filtered
        }
        if filtered:
            yield f"ALTER PUBLICATION {self.name} DROP TABLE {', '.join(filtered)}"
            yield f"ALTER PUBLICATION {self.name} ADD TABLE {', '.join(filtered)}"

    def _add_statement(self, tables: Mapping[str, TableState], new: bool) -> str:
        oids = {table.oid for table in tables.values()}
        # If the table of a partition is included, the partition's changes are those of the table.
        named = ", ".join(table.publication_name for table in tables.values() if not oids & set(table.ancestors))
        if new:
            return f"CREATE PUBLICATION {self.name} FOR TABLE {named} WITH (publish_via_partition_root = true)"
        return f"ALTER PUBLICATION {self.name} ADD TABLE {named}"

    def _may_publish(self, state: TableState, found: PublicationState | None) -> bool:
        return state.is_owned and (self.may_create if found is None else found.may_alter)

    def _whole(self, state: TableState, found: PublicationState | None) -> str | None:
        if found is not None and not found.via_root:
            return None
        declared = (other.shown for other, _ in self.tables.values() if other.oid in state.ancestors)
        return (found.whole if found is not None else None) or next(declared, None)


def publication(connection: psycopg.Connection[Any], name: str, tables: Sequence[Postgres]) -> Publication:
    """The current state of a publication, for the tables that a pipeline reads in the connection's database."""
    ((may_create,),) = connection.execute("SELECT has_database_privilege(current_database(), 'CREATE')").fetchall()
    found = {reads.table: (reads, table_state(connection, reads)) for reads in tables}
    return Publication(
        name,
        may_create,
        {
            declared: (table, publication_state(connection, name, reads, table.oid))
            for declared, (reads, table) in found.items()
            if table is not None and table.is_table and table.is_kept
        },
    )


def publish(
    connection: psycopg.Connection[Any], name: str, tables: Sequence[Postgres], reads: Postgres
) -> tuple[Publication, bool]:
    """Publish a table, with the others of the pipeline; return the publication, and whether it was altered.

    Raises `NotPublishedError` if the user may not.
    """
    from psycopg import errors

    altered = False
    for _ in range(limits.PUBLISH_ATTEMPTS):
        found = publication(connection, name, tables)
        if reads.table not in found.tables:
            raise NotPublishedError(
                f"'{reads.table}' is the server's own, or not logged: nothing can publish it", table=reads.table
            )
        table, state = found.tables[reads.table]
        if state is not None and not state.lacks(table):
            return found, altered
        altered = True
        try:
            connection.execute(found.addition(reads).encode())
        except (errors.DuplicateObject, errors.UniqueViolation, errors.UndefinedTable):
            # Another source or home was faster, or a table of another source was dropped.
            continue
        except errors.InsufficientPrivilege as error:
            why = error.diag.message_primary
            raise NotPublishedError(
                f"the user may not publish '{reads.table}' ({why})", found.cure, table=reads.table
            ) from None
    raise NotPublishedError(
        f"publication {name} lacks '{reads.table}': others alter it all the time; run again",
        publication=name,
        table=reads.table,
    )
