"""The marker of a value that was not sent, as each type of column has it: recorded, and in Avro."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro")

from fastavro import parse_schema, schemaless_writer

from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.sources.debezium.envelope import envelope_decode
from rivermeet.infra.sources.debezium.values import absence
from rivermeet.pipelines import Debezium
from tests.infra.sources.debezium.recorded import envelope, recorded
from tests.infra.sources.kafka.formats.schemas import served
from tests.reliability import handled

DEFAULT = Debezium().unavailable
TYPES = {
    "t": "STRING",
    "vc": "STRING",
    "b": "BINARY",
    "j": "STRING",
    "jn": "STRING",
    "num": "STRING",
    "ia": "ARRAY<INT>",
    "ba": "ARRAY<BIGINT>",
    "da": "ARRAY<DATE>",
    "ta": "ARRAY<STRING>",
    "va": "ARRAY<STRING>",
    "ua": "ARRAY<STRING>",
    "bya": "ARRAY<BINARY>",
    "ja": "ARRAY<STRING>",
    "h": "STRING",
    "x": "STRING",
    "ci": "STRING",
    "tsv": "STRING",
    "lt": "STRING",
    "inta2": "ARRAY<INT>",
    "sa": "ARRAY<SMALLINT>",
    "na": "ARRAY<DECIMAL(10, 2)>",
    "fa": "ARRAY<DOUBLE>",
    "tza": "ARRAY<TIMESTAMP>",
    "tsa": "ARRAY<TIMESTAMP_NTZ>",
    "boa": "ARRAY<BOOLEAN>",
}
"""Columns of README.md's table; ``h`` is an hstore."""
NO_MARKER = {"sa", "na", "fa", "tza", "tsa", "boa"}


@pytest.mark.parametrize(
    ("number", "marker", "types", "null"),
    [
        pytest.param(0, DEFAULT, {}, set(), id="the default"),
        pytest.param(
            1, DEFAULT, {"h": "MAP<STRING, STRING>", "b": "STRING"}, {"num", "bya"}, id="schemas, map, hex, precise"
        ),
        pytest.param(2, "hex:6e2f61", {"h": "MAP<STRING, STRING>"}, {"b", "bya"}, id="a marker of bytes, map, base64"),
        pytest.param(3, "(not sent) é", {}, {"num"}, id="another marker, schemas, double"),
    ],
)
def test_recorded_of_each_type(number: int, marker: str, types: dict[str, str], null: set[str]) -> None:
    """``null`` are columns that come as null by this connector's settings."""
    declared = {"n": "INT", **TYPES, **types}
    value = recorded("unsent", "toast")[number].value
    assert value is not None
    found = envelope_decode(Debezium(declared, unavailable=marker), Registry("", Path()))(value)
    columns = json.loads(found.text or "")
    noticed = NO_MARKER | (null - {"num"})
    assert found.absent
    assert set(columns["debezium_absent"]) == TYPES.keys() - null - NO_MARKER | {f"?{name}" for name in noticed}
    assert {name for name, cell in columns.items() if name in declared and cell is not None} == {"n"}
    if number == 0:
        types_of = "arrays of numbers, dates and UUIDs, hstore, bytea, jsonb, numeric, any text"
        handled("Debezium", f"a large value (TOAST) that was not changed: {types_of}", "the row keeps its value")
    if number == 2:
        handled("Debezium", "unavailable.value.placeholder, also as hex:", 'Debezium(unavailable="…") names the marker')


@pytest.mark.parametrize("value", [DEFAULT, [DEFAULT], list(DEFAULT.encode()), {DEFAULT: DEFAULT}, DEFAULT.encode()])
def test_what_is_no_marker_of_another_one(value: Any) -> None:
    assert absence(DEFAULT)(value) and not absence("n/a")(value)
    assert not absence(DEFAULT)([DEFAULT, DEFAULT]) and not absence(DEFAULT)([]) and not absence(DEFAULT)({})


@pytest.mark.parametrize(
    ("op", "full", "expected"),
    [("u", False, ["?rates"]), ("u", True, []), ("c", False, []), ("r", False, [])],
)
def test_null_of_a_type_without_a_marker(op: str, full: bool, expected: list[str]) -> None:
    """In an update alone, and not where `before` says it."""
    decode = envelope_decode(Debezium({"rates": "ARRAY<DOUBLE>", "n": "INT"}, full=full), Registry("", Path()))
    found = decode(envelope(op, {"rates": None, "n": None}, lsn=1))
    assert json.loads(found.text or "")["debezium_absent"] == expected


def test_avro(tmp_path: Path) -> None:
    """Bytes are bytes there, and an hstore is a map."""
    columns: dict[str, tuple[Any, Any, str]] = {
        "t": ("string", DEFAULT, "STRING"),
        "b": ("bytes", DEFAULT.encode(), "BINARY"),
        "ia": ({"type": "array", "items": ["null", "int"]}, list(DEFAULT.encode()), "ARRAY<INT>"),
        "bya": ({"type": "array", "items": ["null", "bytes"]}, [DEFAULT.encode()], "ARRAY<BINARY>"),
        "ua": ({"type": "array", "items": "string"}, ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], "ARRAY<STRING>"),
        "h": ({"type": "map", "values": ["null", "string"]}, {DEFAULT: DEFAULT}, "MAP<STRING, STRING>"),
    }
    row = {"type": "record", "name": "Value", "fields": [{"name": n, "type": t[0]} for n, t in columns.items()]}
    source = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}
    fields = [{"name": "after", "type": row}, {"name": "source", "type": source}, {"name": "op", "type": "string"}]
    schema = {"type": "record", "name": "Envelope", "fields": fields}
    body = BytesIO()
    after = {name: value for name, (_, value, _) in columns.items()}
    schemaless_writer(body, parse_schema(schema), {"after": after, "source": {"lsn": 1}, "op": "u"})
    with served({7: {"schema": json.dumps(schema)}}) as schemas:
        format = Debezium({name: declared for name, (_, _, declared) in columns.items()}, encoding="avro")
        found = envelope_decode(format, Registry(schemas.url, tmp_path))(b"\0" + struct.pack(">I", 7) + body.getvalue())
    assert json.loads(found.text or "")["debezium_absent"] == list(columns)


@pytest.mark.parametrize("marker", ["", "hex:", "hex:6e2", "hex:zz"])
def test_a_marker_that_is_none(marker: str) -> None:
    with pytest.raises(ValueError, match="give a text, or hex: and an even number of digits"):
        Debezium({"n": "INT"}, unavailable=marker)
