"""Values of all types, as the snapshot and as the log have them: exact, or a dead letter."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from rivermeet.pipelines import Pipeline
from tests.infra.sources.postgres.base import Base
from tests.reliability import handled

pytestmark = pytest.mark.slow

TYPES: list[tuple[str, str, list[tuple[str, Any]]]] = [
    ("boolean", "BOOLEAN", [("true", True), ("false", False)]),
    ("smallint", "SMALLINT", [("-32768", -32768)]),
    ("bigint", "BIGINT", [("9223372036854775807", 9223372036854775807)]),
    ("numeric", "DECIMAL(38,10)", [("12345678901234567890.0123456789", Decimal("12345678901234567890.0123456789"))]),
    ("numeric(10,2)", "DECIMAL(10,2)", [("-0.05", Decimal("-0.05")), ("1e3", Decimal("1000.00"))]),
    ("double precision", "DOUBLE", [("0.1", 0.1), ("1e-300", 1e-300), ("'infinity'", float("inf"))]),
    ("real", "FLOAT", [("1.5", 1.5)]),
    ("text", "STRING", [("E'a\\tb\\nc\\\\ \\u00e9 \"'", 'a\tb\nc\\ \u00e9 "'), ("''", ""), ("'\\N'", "\\N")]),
    ("char(4)", "STRING", [("'a'", "a   ")]),
    ("bytea", "BINARY", [("'\\x00ff'", b"\x00\xff"), ("''", b"")]),
    ("date", "DATE", [("'2026-02-28'", date(2026, 2, 28)), ("'0099-01-01'", date(99, 1, 1))]),
    (
        "timestamptz",
        "TIMESTAMP",
        [
            ("'2026-03-29 02:30:00.123456+02'", datetime(2026, 3, 29, 0, 30, 0, 123456)),
            ("'1965-01-01 00:00:00+05:30'", datetime(1964, 12, 31, 18, 30)),
        ],
    ),
    ("timestamp", "TIMESTAMP_NTZ", [("'2026-03-29 02:30:00'", datetime(2026, 3, 29, 2, 30))]),
    ("uuid", "STRING", [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    ("jsonb", "STRING", [('\'{"b": [1, null], "a": "x"}\'', '{"a": "x", "b": [1, null]}')]),
    ("int[]", "STRING", [("'{1,NULL,3}'", "{1,NULL,3}")]),
    ("mood", "STRING", [("'glad'", "glad")]),
    ("interval", "STRING", [("'1 day 2 hours'", "P1DT2H")]),
    ("time", "STRING", [("'24:00:00'", "24:00:00"), ("'00:00:00'", "00:00:00")]),
    ("timetz", "STRING", [("'24:00:00+02'", "24:00:00+02")]),
    ("date", "STRING", [("'infinity'", "infinity"), ("'0044-03-15 BC'", "0044-03-15 BC")]),
    ("timestamptz", "STRING", [("'-infinity'", "-infinity")]),
    ("numeric", "STRING", [("'NaN'", "NaN"), ("'-Infinity'", "-Infinity"), ("1.00", "1.00")]),
    ("double precision", "STRING", [("'-0'", "-0"), ("'NaN'", "NaN")]),
    ("money", "STRING", [("-1234.5", "-$1,234.50")]),
    ("xid8", "STRING", [("'18446744073709551615'", "18446744073709551615")]),
    ("bit varying", "STRING", [("B'0101'", "0101"), ("B''", "")]),
    ("int[]", "STRING", [("'[0:1]={1,2}'", "[0:1]={1,2}"), ("'{{1,2},{3,4}}'", "{{1,2},{3,4}}")]),
    ("text[]", "STRING", [("ARRAY['a\"b', 'NULL', NULL, '']", '{"a\\"b","NULL",NULL,""}')]),
    ("place", "STRING", [("ROW('a, b', NULL)", '("a, b",)')]),
    ("short", "STRING", [("'ab'", "ab")]),
    ("int4range", "STRING", [("'(1,4]'", "[2,5)"), ("'empty'", "empty")]),
]


def test_values_are_exact(base: Base) -> None:
    """The same of a row of the snapshot, and of one that comes afterwards."""
    base.do("CREATE TYPE mood AS ENUM ('glad', 'sad')", "CREATE TYPE place AS (street text, n int)")
    base.do("CREATE DOMAIN short AS varchar(9) CHECK (value <> '')")
    columns = [f"c{at}" for at in range(len(TYPES))]
    made = ", ".join(f"{name} {kind}" for name, (kind, _, _) in zip(columns, TYPES, strict=True))
    base.do(f"CREATE TABLE many (id int PRIMARY KEY, {made})")
    schema = {"id": "INT", **{name: kind for name, (_, kind, _) in zip(columns, TYPES, strict=True)}}
    node = Pipeline("shop").table("many", base.table("many", schema))
    most = max(len(values) for _, _, values in TYPES)
    picked = [[values[n % len(values)] for _, _, values in TYPES] for n in range(most)]
    for shift in (0, 100):
        for n, values in enumerate(picked):
            base.do(f"INSERT INTO many VALUES ({n + shift}, {', '.join(text for text, _ in values)})")
        base.do(f"INSERT INTO many (id) VALUES ({99 + shift})")
        base.run(node)
    expected = [
        (n + shift, *(value for _, value in values)) for shift in (0, 100) for n, values in enumerate(picked)
    ] + [(n, *[None] * len(TYPES)) for n in (99, 199)]
    found = [tuple(bytes(v) if isinstance(v, bytearray) else v for v in row) for row in base.folded(node)]
    for row, wanted in zip(sorted(found), sorted(expected), strict=True):
        assert row == wanted
    assert base.letters(node) == []
    handled(
        "PostgreSQL",
        "time 24:00:00, infinity, BC, NaN, money, arrays from 0, as STRING",
        "as PostgreSQL writes it",
    )


@pytest.mark.parametrize("after", [False, True])
def test_what_is_not_of_its_type_is_a_dead_letter(base: Base, after: bool) -> None:
    base.do("CREATE TABLE bad (id int PRIMARY KEY, d date, at timestamptz, n numeric)")
    schema = {"id": "INT", "d": "DATE", "at": "TIMESTAMP", "n": "DECIMAL(4,1)"}
    node = Pipeline("shop").table("bad", base.table("bad", schema), max_bad_share=1)
    if after:
        base.run(node)
    base.do(
        "INSERT INTO bad VALUES (1, 'infinity', NULL, NULL)",
        "INSERT INTO bad VALUES (2, NULL, '-infinity', NULL)",
        "INSERT INTO bad VALUES (3, NULL, NULL, 1.25)",
        "INSERT INTO bad VALUES (4, NULL, NULL, 12345)",
        "INSERT INTO bad VALUES (5, NULL, NULL, 'NaN')",
        "INSERT INTO bad VALUES (6, '0044-03-15 BC', NULL, NULL)",
        "INSERT INTO bad VALUES (8, NULL, '0044-03-15 12:00:00+00 BC', NULL)",
        "INSERT INTO bad VALUES (7, '2026-01-01', NULL, 1.50)",
    )
    base.run(node)
    assert [row[0] for row in base.folded(node)] == [7]
    letters = base.letters(node)
    assert [letter["reason"] for letter in letters] == [
        "column 'd': 'infinity' is not DATE",
        "column 'at': '-infinity' is not TIMESTAMP",
        "column 'n': '1.25' is not DECIMAL(4,1)",
        "column 'n': '12345' is not DECIMAL(4,1)",
        "column 'n': 'NaN' is not DECIMAL(4,1)",
        "column 'd': '0044-03-15 BC' is not DATE",
        "column 'at': '0044-03-15 12:00:00+00 BC' is not TIMESTAMP",
    ]
    assert letters[0]["text"] == '{"id":"1","d":"infinity","at":null,"n":null}'
    assert letters[0]["file"] == f"{base.name}.public.bad"
