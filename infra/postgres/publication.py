"""The publication of a pipeline in a database: all tables that its sources read, and all of their changes.

| the publication | a source that is read for the first time |
|---|---|
| is not there | makes it, with its table |
| lacks the table | puts the table in |
| and the user may not | is refused, with the statement that whoever may has to run |

It has to be there before the slot's position, for changes are decoded by the catalog of their time. Held by
``tests/infra/sources/postgres/test_faults.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.postgres.refusals import NotPublishedError
from infra.postgres.state import PublicationState, publication_state
from pipelines import Postgres

if TYPE_CHECKING:
    import psycopg


def publish(connection: psycopg.Connection[Any], name: str, reads: Postgres, oid: int) -> PublicationState:
    """Have a table published; the publication as it is then.

    Raises
    ------
    NotPublishedError
        Where the user may not.
    """
    from psycopg import errors, sql

    found = publication_state(connection, name, reads, oid)
    if found is not None and found.has_table:
        return found
    action = "CREATE PUBLICATION {} FOR TABLE {}" if found is None else "ALTER PUBLICATION {} ADD TABLE {}"
    # Changes of a partition come as those of its table.
    options = " WITH (publish_via_partition_root = true)" if found is None else ""
    statement = sql.SQL(action + options).format(sql.Identifier(name), sql.Identifier(*reads.place))
    try:
        connection.execute(statement)
    except errors.InsufficientPrivilege as error:
        raise NotPublishedError(
            f"the user may not publish '{reads.table}' ({error.diag.message_primary}): let its owner run "
            f"{statement.as_string(connection)}"
        ) from None
    made = publication_state(connection, name, reads, oid)
    assert made is not None
    return made
