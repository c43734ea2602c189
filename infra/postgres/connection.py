"""Connections to the server that the settings name; their messages reveal neither its address nor credentials.

| what fails | what a message says |
|---|---|
| no server is set | set RIVERMEET_POSTGRES |
| the server is down | the server that RIVERMEET_POSTGRES names does not answer |
| the password is wrong | the same, and what the server said: password authentication failed for user "u" |
| a privilege is missing | permission denied for table orders |

libpq's own messages contain hosts, so only the server's messages are shown. Values come as text in one format, whatever
the server's settings: UTC, ISO dates, bytes in hexadecimal, money in dollars. Held by
``tests/infra/postgres/test_connection.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rivermeet.infra.postgres.refusals import (
    PostgresRefusedError,
    RightMissingError,
    ServerUnavailableError,
    ServerUnfitError,
    SlotBusyError,
    SlotLostError,
)
from rivermeet.infra.settings import SettingsError
from rivermeet.pipelines import limits
from rivermeet.pipelines.extras import require

if TYPE_CHECKING:
    import psycopg

_STYLE = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
    "client_encoding": "UTF8",
    "lock_timeout": str(limits.LOCK_MS),
}
_CHECK = "`rivermeet check` says more"
_REFUSALS: dict[str, tuple[type[PostgresRefusedError], str]] = {
    "42501": (RightMissingError, "grant it, and run again"),
    "55006": (SlotBusyError, "end what reads from it, and run again"),
    "55P03": (
        SlotBusyError,
        f"something was open for {limits.LOCK_MS // 1000} s that had to end first: end it, and run again",
    ),
    "53400": (ServerUnfitError, "raise max_replication_slots, or drop a slot that nobody needs"),
    # An invalidated slot, and a missing one.
    "55000": (SlotLostError, _CHECK),
    "42704": (SlotLostError, _CHECK),
}
"""The refusal and the remedy for an SQLSTATE."""


@dataclass(frozen=True)
class Database:
    """One database of the server, with libpq's connection string as the settings give it."""

    dsn: str = field(repr=False)
    name: str

    def connect(self, replication: bool = False) -> psycopg.Connection[Any]:
        """A new connection, in which each statement is committed by itself.

        With ``replication`` it accepts commands of the replication protocol in addition to SQL.
        """
        require("psycopg")
        import psycopg

        if not self.dsn:
            raise SettingsError(
                "a table of PostgreSQL is read, and no server is named: set RIVERMEET_POSTGRES to a connection string, "
                "such as service=shop",
                variable="RIVERMEET_POSTGRES",
            )
        options: dict[str, Any] = {
            "dbname": self.name,
            "connect_timeout": limits.CONNECT_SECONDS,
            "application_name": "rivermeet",
        }
        if replication:
            options["replication"] = "database"
        try:
            connection = psycopg.connect(self.dsn, autocommit=True, **options)
        except psycopg.ProgrammingError:
            raise SettingsError(
                "RIVERMEET_POSTGRES is no connection string of libpq", variable="RIVERMEET_POSTGRES"
            ) from None
        except psycopg.OperationalError as error:
            raise unavailable(error) from None
        for name, value in _STYLE.items():
            connection.pgconn.exec_(f"SET {name} = '{value}'".encode())
        return connection

    @contextmanager
    def open_connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for the duration of a block, which translates errors into refusals."""
        with self.connect() as connection, refuse_server_errors():
            yield connection


@contextmanager
def refuse_server_errors() -> Iterator[None]:
    """Translate the server's errors into refusals."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise refusal(error.sqlstate, error.diag.message_primary) from None


def refusal(state: str | None, said: str | None) -> PostgresRefusedError:
    """The refusal for an error of the server, by its SQLSTATE and message."""
    if state is None:
        return ServerUnavailableError(
            "the server that RIVERMEET_POSTGRES names broke off; what was planned stands: see to it, and run again",
            variable="RIVERMEET_POSTGRES",
        )
    kind, remedy = _REFUSALS.get(state, (PostgresRefusedError, _CHECK))
    return kind(f"the server says: {said} ({state}); {remedy}", sqlstate=state)


def unavailable(error: psycopg.OperationalError) -> ServerUnavailableError:
    """The refusal for a failed connection."""
    # The text after FATAL is the server's message; the text before it contains the address.
    _, fatal, said = str(error).partition("FATAL:")
    why = f" ({said.strip().splitlines()[0]})" if fatal else ""
    return ServerUnavailableError(
        f"the server that RIVERMEET_POSTGRES names does not let us in{why}; what was planned stands: see to it, or to "
        "RIVERMEET_POSTGRES, and run again",
        variable="RIVERMEET_POSTGRES",
    )
