"""Envelopes, recorded and in their image: their columns, what they are, and where they stand."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro")

from fastavro import parse_schema, schemaless_writer

from rivermeet.infra.kafka.formats.framing import UndecodableError
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.sources.debezium.envelope import change_of, envelope_decode, key_decode, position
from rivermeet.pipelines import Debezium
from tests.infra.sources.debezium.recorded import envelope, recorded

COLUMNS = {
    "customer": "STRING",
    "amount": "DECIMAL(10,2)",
    "day": "DATE",
    "at": "TIMESTAMP",
    "exact": "TIMESTAMP",
    "raw": "BINARY",
    "any_n": "DECIMAL(10,4)",
    "paid": "BOOLEAN",
}
ANN = {
    "customer": "ann",
    "amount": "12.30",
    "day": "2024-01-02",
    "at": "2024-01-02T01:04:05.678901Z",
    "exact": "2024-01-02 03:04:05.678901",
    "raw": "AAH/",
    "any_n": "123.4567",
    "paid": True,
}


def decoded(format: Debezium, payload: bytes | None, registry: Registry | None = None) -> dict[str, Any]:
    assert payload is not None
    found = envelope_decode(format, registry or Registry("", Path()))(payload)
    assert found.problem is None
    columns = json.loads(found.text or "")
    return {name: value for name, value in columns.items() if not name.startswith("debezium_")}


def test_the_same_row_with_and_without_schemas() -> None:
    """Of JSON without schemas, a timestamp without zone is a number of a unit that nobody knows."""
    assert decoded(Debezium(COLUMNS), recorded("schemas")[0].value) == ANN
    plain = {name: kind for name, kind in COLUMNS.items() if name != "exact"}
    expected = {name: value for name, value in ANN.items() if name != "exact"}
    assert decoded(Debezium(plain, decimals="text"), recorded("plain")[0].value) == expected


@pytest.mark.parametrize("name", ["plain", "schemas"])
def test_what_each_record_is(name: str) -> None:
    decode = envelope_decode(Debezium({"customer": "STRING", "note": "STRING"}), Registry("", Path()))
    key = key_decode(Debezium({"id": "INT"}), Registry("", Path()))
    found: list[tuple[Any, ...]] = []
    for one in recorded(name):
        of = json.loads(key(one.key))["id"] if one.key is not None else None
        made = decode(one.value) if one.value is not None else None
        if made is not None and made.problem is not None:
            found.append((of, made.problem[10:25], None))
            continue
        columns = json.loads(made.text or "") if made is not None else {}
        found.append(
            (of, made and made.op, columns.get("customer"), (columns.get("note") or "")[:1], made and made.absent)
        )
    assert found == [
        (1, "r", "ann", "x", False),
        (2, "r", "bob", "", False),
        (3, "c", "cay", "y", False),
        (1, "u", "ann", "", True),
        (1, "d", None, "", False),
        (1, None, None, "", None),
        (4, "c", "ann", "", True),
        (2, "u", "dan", "", False),
        (2, "u", "dan", "", False),
        (3, "d", None, "", False),
        (3, None, None, "", None),
        (4, "u", "ann", "z", False),
        (None, "is a TRUNCATE o", None),
        (9, "c", "eve", "", False),
    ]


def test_positions_are_in_the_order_of_commits() -> None:
    """Row 60 was written before rows that were committed before it: its own LSN is lower."""
    decode = envelope_decode(Debezium({"n": "INT"}), Registry("", Path()))
    found = [decode(one.value) for one in recorded("restart") if one.value is not None]
    places = [one.change.position for one in found if one.change is not None]
    assert places == sorted(places) and len(places) == len(found)
    lsns = [json.loads(one.text or "")["debezium_lsn"] for one in found]
    assert lsns != sorted(lsns)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"{", "is not one JSON object"),
        (b"[]", "is no envelope of Debezium"),
        (b'{"id": 1, "n": 2}', "is no envelope of Debezium: it has no op and source"),
        (b'{"op": "c", "source": "x"}', "is no envelope of Debezium: it has no op and source"),
        (b'{"ts_ms": 1}', "is no envelope of Debezium"),
        (b'{"status": "BEGIN", "id": "571:53195829", "ts_ms": 1}', "is no envelope of Debezium"),
        (b'{"source": {"server": "shop"}, "databaseName": "shop", "ddl": "CREATE"}', "is no envelope of Debezium"),
    ],
)
def test_what_is_no_envelope(payload: bytes, reason: str) -> None:
    """Neither are heartbeats, the ends of transactions and changes of a schema, where they come into the topic."""
    with pytest.raises(UndecodableError, match=reason):
        envelope_decode(Debezium({"n": "INT"}), Registry("", Path()))(payload)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (envelope("x", {"n": 1}), "has op 'x', which is not one of r, c, u, d, t, m"),
        (envelope("c", None), "has op 'c' and no row after it"),
        (envelope("t", None), "is a TRUNCATE of the table"),
    ],
)
def test_what_is_no_change_of_a_row(payload: bytes, reason: str) -> None:
    found = envelope_decode(Debezium({"n": "INT"}), Registry("", Path()))(payload)
    assert reason in (found.problem or "") and found.text is None


def test_a_delete_has_all_columns_where_before_is_whole() -> None:
    """The key of a table without a primary key is among them."""
    deleted = envelope("d", {"n": 7}, lsn=1)
    assert decoded(Debezium({"n": "INT"}), deleted) == {"n": None}
    assert decoded(Debezium({"n": "INT"}, full=True), deleted) == {"n": 7}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"connector": "postgresql", "lsn": 500, "sequence": '["400","500"]'}, (400, 500)),
        ({"connector": "postgresql", "lsn": 500, "sequence": '[null,"500"]'}, (0, 500)),
        ({"connector": "postgresql", "lsn": 500}, None),
        ({"connector": "yugabytedb", "lsn": "1:2::3:4", "sequence": '["1:1::0:0","1:2::3:4"]'}, None),
        ({"connector": "mysql", "file": "mysql-bin.000003", "pos": 4, "row": 2, "gtid": None}, (3, 4, 2)),
        ({"connector": "mariadb", "file": "mariadb-bin.1000003", "pos": 4, "gtid": "0-1-7"}, (1000003, 4, 0)),
        ({"connector": "sqlserver", "commit_lsn": "0000:1", "change_lsn": "0000:2"}, None),
    ],
)
def test_a_position(source: dict[str, Any], expected: Any) -> None:
    assert position(source) == expected


@pytest.mark.parametrize(
    ("sequence", "snapshot", "expected"),
    [
        ('[null,"5"]', "first", (True, True)),
        ('[null,"5"]', "last_in_data_collection", (True, True)),
        ('[null,"5"]', "incremental", (True, False)),
        ('["4","5"]', "true", (True, True)),
        ('["4","5"]', "false", (False, False)),
    ],
)
def test_a_row_of_a_snapshot(sequence: str, snapshot: str, expected: tuple[bool, bool]) -> None:
    """Whether it is one, and of one that may begin a log."""
    op = "u" if snapshot == "false" else "r"
    source = {"connector": "postgresql", "lsn": 5, "sequence": sequence, "snapshot": snapshot}
    found = change_of({"op": op, "source": source})
    assert found is not None and (found.snapshot, found.begins) == expected


def test_before_is_only_looked_at_where_it_is_whole() -> None:
    mark = "__debezium_unavailable_value"
    payload = json.dumps(
        {"before": {"n": 1, "note": "old"}, "after": {"n": 2, "note": mark}, "source": {"lsn": 1}, "op": "u"}
    ).encode()
    columns = {"n": "INT", "note": "STRING"}
    assert decoded(Debezium(columns), payload) == {"n": 2}
    assert decoded(Debezium(columns, full=True), payload) == {"n": 2, "note": "old"}


ROW = {
    "type": "record",
    "name": "Value",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "day", "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}], "default": None},
        {
            "name": "amount",
            "type": [
                "null",
                {
                    "type": "bytes",
                    "scale": 2,
                    "precision": 10,
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                    "logicalType": "decimal",
                },
            ],
        },
        {"name": "at", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}]},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.mysql",
                "fields": [
                    {"name": "ts_ms", "type": "long"},
                    {"name": "server_id", "type": "long"},
                    {"name": "file", "type": "string"},
                    {"name": "pos", "type": "long"},
                    {"name": "row", "type": "int"},
                ],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}


def test_avro_of_mysql(tmp_path: Path) -> None:
    """The second row of an envelope names the type of the first."""
    from decimal import Decimal

    row = {"id": 1, "day": 19724, "amount": Decimal("12.30"), "at": 1704164645678901}
    source = {"ts_ms": 5_000, "server_id": 223344, "file": "binlog.000012", "pos": 4, "row": 0}
    body = BytesIO()
    schemaless_writer(
        body, parse_schema(ENVELOPE), {"before": None, "after": row, "source": source, "op": "u", "ts_ms": 6_000}
    )
    payload = b"\0" + struct.pack(">I", 7) + body.getvalue()
    from tests.infra.sources.kafka.formats.schemas import served

    with served({7: {"schema": json.dumps(ENVELOPE)}}) as schemas:
        format = Debezium({"day": "DATE", "amount": "DECIMAL(10,2)", "at": "TIMESTAMP"}, encoding="avro")
        found = envelope_decode(format, Registry(schemas.url, tmp_path))(payload)
    assert json.loads(found.text or "") == {
        "day": "2024-01-02",
        "amount": "12.30",
        "at": "2024-01-02 03:04:05.678901",
        "debezium_op": "u",
        "debezium_ts_ms": 5_000,
        "debezium_lsn": None,
        "debezium_absent": [],
    }
    assert found.change is not None and found.change.position == (12, 4, 0, 0)
