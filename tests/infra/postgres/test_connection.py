"""What a connection says where it fails: the server's own words, and never where it is or how to log in."""

from __future__ import annotations

import pytest

from rivermeet.infra.postgres.connection import Database
from rivermeet.infra.postgres.refusals import PostgresRefusedError, ServerUnavailableError
from rivermeet.infra.settings import Settings, SettingsError
from tests.servers.postgres import PostgresServer


@pytest.mark.parametrize(
    ("dsn", "error", "says"),
    [
        ("", SettingsError, "set RIVERMEET_POSTGRES to a connection string"),
        ("host=127.0.0.1 port=1 password=s3cret", ServerUnavailableError, "does not let us in; what was planned"),
        ("this is none", SettingsError, "RIVERMEET_POSTGRES is no connection string of libpq"),
        ("service=nobody-has-it", ServerUnavailableError, "does not let us in"),
    ],
)
def test_nobody_answers(dsn: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as found:
        Database(dsn, "shop").connect()
    assert "127.0.0.1" not in str(found.value) and "s3cret" not in str(found.value)


def test_the_server_does_not_let_us_in(postgres: PostgresServer) -> None:
    with pytest.raises(ServerUnavailableError, match='database "nobody_has_it" does not exist') as found:
        Database(postgres.dsn, "nobody_has_it").connect()
    assert str(postgres.port) not in str(found.value)


def test_what_the_server_says_is_a_refusal(postgres: PostgresServer) -> None:
    says = r"the server says: division by zero \(22012\)"
    with (
        pytest.raises(PostgresRefusedError, match=says),
        Database(postgres.dsn, "postgres").open_connection() as connection,
    ):
        connection.execute("SELECT 1 / 0")


def test_values_come_in_one_style(postgres: PostgresServer) -> None:
    with Database(postgres.dsn, "postgres").open_connection() as connection:
        found = connection.execute(
            "SELECT ('2026-01-01 12:00+02'::timestamptz)::text, ('x'::bytea)::text, (0.1::float8)::text"
        ).fetchone()
    assert found == ("2026-01-01 10:00:00+00", "\\x78", "0.1")


def test_the_setting_is_passed_on_and_not_shown() -> None:
    settings = Settings.from_env({"RIVERMEET_POSTGRES": "host=h password=s3cret"})
    assert settings.environ()["RIVERMEET_POSTGRES"] == "host=h password=s3cret"
    assert "s3cret" not in repr(settings)
