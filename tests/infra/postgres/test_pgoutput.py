"""Messages of the plugin as the server writes them, decoded."""

from __future__ import annotations

from struct import pack
from typing import Any

import psycopg
import pytest

from rivermeet.infra.postgres.pgoutput import UNCHANGED, Begin, Change, Relation, Truncate, decode_message
from rivermeet.infra.postgres.wal_range import lsn_number, lsn_text
from tests.servers.postgres import PostgresServer

LONG = "x" * 5000


def said(postgres: PostgresServer, identity: str, *statements: str) -> list[Any]:
    """What a slot says of statements about a table (id, n, body), without where and when."""
    with psycopg.connect(f"{postgres.dsn} dbname=postgres", autocommit=True) as client:

        def do(statement: str) -> list[Any]:
            found = client.execute(statement)  # pyright: ignore[reportArgumentType, reportCallIssue]
            return found.fetchall() if found.description else []

        do("CREATE TABLE t (id int PRIMARY KEY, n int, body text); ALTER TABLE t ALTER body SET STORAGE EXTERNAL")
        do(f"ALTER TABLE t REPLICA IDENTITY {identity}; CREATE PUBLICATION p FOR TABLE t")
        do("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        try:
            for statement in statements:
                do(statement)
            peek = (
                "pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')"
            )
            return [m for (data,) in do(f"SELECT data FROM {peek}") if (m := decode_message(data)) is not None]
        finally:
            do("SELECT pg_drop_replication_slot('s')")
            do("DROP PUBLICATION p; DROP TABLE t")


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (
            "DEFAULT",
            [
                ("i", None, [b"1", b"1", LONG.encode()], False),
                ("u", None, [b"1", b"2", UNCHANGED], False),
                ("u", [b"1", None, None], [b"5", b"2", UNCHANGED], False),
                ("d", [b"5", None, None], None, False),
            ],
        ),
        (
            "FULL",
            [
                ("i", None, [b"1", b"1", LONG.encode()], False),
                ("u", [b"1", b"1", LONG.encode()], [b"1", b"2", UNCHANGED], True),
                ("u", [b"1", b"2", LONG.encode()], [b"5", b"2", UNCHANGED], True),
                ("d", [b"5", b"2", LONG.encode()], None, True),
            ],
        ),
    ],
)
def test_changes(postgres: PostgresServer, identity: str, expected: list[Any]) -> None:
    found = said(
        postgres,
        identity,
        f"INSERT INTO t VALUES (1, 1, '{LONG}')",
        "UPDATE t SET n = 2",
        "UPDATE t SET id = 5",
        "DELETE FROM t",
    )
    assert [(c.op, c.old, c.new, c.whole) for c in found if isinstance(c, Change)] == expected
    begins = [begin for begin in found if isinstance(begin, Begin)]
    assert [b.lsn for b in begins] == sorted({b.lsn for b in begins}) and len(begins) == 4
    assert all(1.6e15 < begin.time_us < 1e16 for begin in begins), "microseconds since 1970"


def test_a_truncate_and_an_altered_table(postgres: PostgresServer) -> None:
    found = said(
        postgres,
        "DEFAULT",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD m int",
        "INSERT INTO t VALUES (2)",
        "TRUNCATE t",
    )
    relations = [r.columns for r in found if isinstance(r, Relation)]
    assert relations[:2] == [("id", "n", "body"), ("id", "n", "body", "m")]
    (change, _) = (c for c in found if isinstance(c, Change))
    assert [t.oids for t in found if isinstance(t, Truncate)] == [(change.oid,)]


def test_what_has_no_change_in_it() -> None:
    assert decode_message(b"C" + pack(">BQQq", 0, 1, 2, 3)) is None
    assert decode_message(b"O" + pack(">Q", 1) + b"origin\0") is None
    assert decode_message(b"M" + b"anything") is None


@pytest.mark.parametrize(("text", "number"), [("0/0", 0), ("0/15288D0", 22186192), ("2/A", (2 << 32) + 10)])
def test_positions(text: str, number: int) -> None:
    assert (lsn_number(text), lsn_text(number)) == (number, text)
