"""Decodes an envelope of Debezium into text with the declared columns, and its position in the database's log.

| op | text |
|---|---|
| r, c, u | the columns of ``after``, and ``debezium_op``, ``debezium_ts_ms``, ``debezium_lsn``, ``debezium_absent`` |
| d | the same without columns: they are null |
| t | none, a dead letter: TRUNCATE names no key, and its rows stay |
| m | none: it is skipped, because it belongs to no row |
| not an envelope, such as one that was unwrapped before it was written | none: a dead letter |

``before`` is ignored, unless it is declared as complete: under the default replica identity it has the key, and
null or the default in all other columns. Source: Debezium's documentation, "Data change events" of its connectors,
and the envelopes recorded in ``tests/infra/sources/debezium``. Held by
``tests/infra/sources/debezium/test_envelope.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from rivermeet.infra.kafka.formats.avro import avro_reader
from rivermeet.infra.kafka.formats.framing import HEADER, MAGIC, UndecodableError, as_json
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.sources.debezium.values import DOUBTFUL, Kind, absence, as_text, may_be_absent
from rivermeet.pipelines import Debezium

_TRUNCATED = (
    "is a TRUNCATE of the table, which names no key: its rows stay here. Delete them with DELETE, or rebuild the "
    "source from a new snapshot"
)

Position = tuple[int, ...]
"""Position of a change in the database's log; positions of one log are ordered as the changes were written."""


class Change(NamedTuple):
    """The identity of a change, by which a repetition is recognised.

    Attributes
    ----------
    log
        Its log: the connector and the name of its server.
    position, content
        Its position there; op, row before and row after.
    committed, written
        When the database made it (ms), and when the connector wrote it (ns).
    exact
        Whether ``written`` is known to the nanosecond, so that no two changes have the same.
    shared
        Whether identical changes may have its position, as rows of one record of PostgreSQL's log.
    snapshot, begins
        Whether it is a row of a snapshot, and of one that may begin a log, so not an incremental one.
    """

    log: str
    position: Position
    content: tuple[Any, ...] = ()
    committed: int | None = None
    written: int | None = None
    exact: bool = False
    shared: bool = False
    snapshot: bool = False
    begins: bool = False


class Envelope(NamedTuple):
    """A decoded record: its text or why there is none, its op, and the change; None if it has no position.

    ``absent`` says whether any column lacks its value, or may do so.
    """

    text: str | None
    op: str
    change: Change | None = None
    absent: bool = False
    problem: str | None = None


Kinds = Mapping[str, Kind] | None
"""Semantic types of columns; None without a schema."""
KindsIn = Callable[[str], Kinds]
"""Returns those of the columns in a field."""


def envelope_decode(format: Debezium, registry: Registry) -> Callable[[bytes], Envelope]:
    """Create the decoder of envelopes of this format."""
    read, is_absent = _reader(format, registry), absence(format.unavailable)

    def decode(payload: bytes) -> Envelope:
        found, kinds_in = read(payload)
        op = found.get("op") if isinstance(found, dict) else None
        if not isinstance(op, str) or not isinstance(found.get("source"), dict):
            raise UndecodableError("is no envelope of Debezium: it has no op and source", format="debezium")
        change = change_of(found)
        try:
            text, absent = row(found, op, kinds_in)
        except UndecodableError as error:
            # A repeat of a record without a row is also a repeat, and not a second dead letter.
            return Envelope(None, op, change, problem=f"the value {error}")
        return Envelope(text, op, change, absent)

    def row(found: Mapping[str, Any], op: str, kinds_in: KindsIn) -> tuple[str, bool]:
        if op == "t":
            raise UndecodableError(_TRUNCATED, op=op)
        if op not in ("r", "c", "u", "d", "m"):
            raise UndecodableError(f"has op '{op[:20]}', which is not one of r, c, u, d, t, m", op=op)
        after, before = found.get("after") if op in "rcu" else {}, found.get("before")
        if not isinstance(after, dict):
            raise UndecodableError(f"has op '{op}' and no row after it", op=op)
        if op == "d" and format.full and isinstance(before, dict):
            # The key of a table without one is among its columns.
            after = before
        absent = [name for name in format.schema if is_absent(after.get(name))]
        if format.full and isinstance(before, dict):
            after = after | {name: before.get(name) for name in absent}
            absent = [name for name in absent if is_absent(after.get(name))]
        kinds = kinds_in("after")
        nulls = [name for name in format.schema if after.get(name) is None] if op == "u" and not format.full else []
        columns = _columns(format, after, kinds, absent)
        written = {name: kind and kind.type for name in nulls for kind in [_kind_of(kinds, name)]}
        absent += [DOUBTFUL + name for name in nulls if may_be_absent(format.schema[name], written[name])]
        own = {
            "debezium_op": op,
            "debezium_ts_ms": found["source"].get("ts_ms") or found.get("ts_ms"),
            "debezium_lsn": found["source"].get("lsn"),
            "debezium_absent": absent,
        }
        return as_json(columns | own), bool(absent)

    return decode


def key_decode(format: Debezium, registry: Registry) -> Callable[[bytes], str]:
    """Create the decoder of keys: the columns of a row's key, with or without a schema."""
    read = _reader(format, registry)

    def decode(payload: bytes) -> str:
        found, kinds_in = read(payload)
        if not isinstance(found, dict):
            raise UndecodableError("is no key of Debezium: it has no columns", format="debezium")
        return as_json(_columns(format, found, kinds_in("")))

    return decode


def _columns(format: Debezium, row: Mapping[str, Any], kinds: Kinds, absent: Collection[str] = ()) -> dict[str, Any]:
    return {
        name: as_text(name, row.get(name), _kind_of(kinds, name), declared, format.decimals)
        for name, declared in format.schema.items()
        if name not in absent
    }


def change_of(envelope: Mapping[str, Any]) -> Change | None:
    """The change of an envelope; None if its source has no position in a log."""
    source, transaction = envelope["source"], envelope.get("transaction")
    place = position(source)
    if place is None:
        return None
    # The connector's own number of the change in its transaction, if it is configured to give one.
    count = transaction.get("total_order") if isinstance(transaction, dict) else None
    number = count if isinstance(count, int) else 0
    given = source.get("snapshot")
    snapshot = envelope["op"] == "r" or given not in (None, False, "false")
    parts = [envelope.get(f"ts_{unit}") for unit in ("ns", "us", "ms")]
    written = next((part * 1000**i for i, part in enumerate(parts) if isinstance(part, int)), None)
    return Change(
        log=f"{source.get('connector') or ''} {source.get('name') or ''}",
        position=(*place, number),
        content=(envelope["op"], envelope.get("before"), envelope.get("after")),
        committed=source.get("ts_ms") or None,
        written=written,
        exact=isinstance(parts[0], int),
        shared="lsn" in source and not number,
        snapshot=snapshot,
        begins=snapshot and given != "incremental",
    )


def position(source: Mapping[str, Any]) -> Position | None:
    """Position of a change: the last commit and the change in PostgreSQL's log, or file, position and row of MySQL's.

    The last commit is 0 if the connector has not seen one yet. The server's id is not used: events of a binary log
    have that of the server where they originated.

    Examples
    --------
    >>> position({"connector": "postgresql", "lsn": 9, "sequence": '["7","9"]'})
    (7, 9)
    >>> position({"connector": "mysql", "server_id": 1, "file": "binlog.000012", "pos": 4, "row": 0})
    (12, 4, 0)
    """
    if "lsn" in source:
        try:
            commit, change = json.loads(source.get("sequence") or "")
            return int(commit or 0), int(change)
        except (ValueError, TypeError):
            # For versions and connectors without it: LSNs alone are not ordered.
            return None
    number = re.search(r"(\d+)$", str(source.get("file") or ""))
    if number is None or source.get("pos") is None:
        return None
    return int(number[1]), int(source["pos"]), int(source.get("row") or 0)


def _reader(format: Debezium, registry: Registry) -> Callable[[bytes], tuple[Any, KindsIn]]:
    if format.encoding == "avro":
        read = avro_reader(None, registry)

        def of_avro(payload: bytes) -> tuple[Any, KindsIn]:
            found, schema = read(payload)
            return found, lambda field: _avro_kinds(schema, field)

        return of_avro
    return _json


def _json(payload: bytes) -> tuple[Any, KindsIn]:
    # JSON never begins with a zero byte: this is the header of a registry's serializer.
    body = payload[HEADER:] if payload.startswith(MAGIC) else payload
    try:
        found = json.loads(body, parse_float=Decimal)
    except ValueError:
        raise UndecodableError("is not one JSON object", format="json") from None
    if isinstance(found, dict) and set(found) == {"schema", "payload"}:
        schema = found["schema"]
        return found["payload"], lambda field: None if schema is None else _json_kinds(schema, field)
    return found, lambda field: None


def _kind_of(kinds: Kinds, column: str) -> Kind | None:
    return None if kinds is None else kinds.get(column, Kind())


def _json_kinds(schema: Mapping[str, Any], field: str) -> Mapping[str, Kind]:
    fields = schema.get("fields") or ()
    if field:
        fields = next((one.get("fields") or () for one in fields if one.get("field") == field), ())
    return {one["field"]: _json_kind(one) for one in fields}


def _json_kind(one: Mapping[str, Any]) -> Kind:
    items = one.get("items")
    return Kind(one.get("name") or "", one.get("parameters") or {}, _json_kind(items) if items else None, one["type"])


def _avro_kinds(schema: Any, field: str) -> Mapping[str, Kind]:
    named: dict[str, Any] = {}
    record = _avro_type(schema, named)
    if field:
        # Both rows have the same type, which is defined at its first use.
        parts = {one["name"]: _avro_type(one["type"], named) for one in record.get("fields") or ()}
        record = parts.get(field) or {}
    return {one["name"]: _avro_kind(one["type"], named) for one in record.get("fields") or ()}


def _avro_type(schema: Any, named: dict[str, Any]) -> Any:
    """The non-null type of a union, with names replaced by their types."""
    if isinstance(schema, list):
        schema = next((part for part in schema if part != "null"), {})
    if isinstance(schema, str):
        return named.get(schema) or named.get(schema.rpartition(".")[2]) or {"type": schema}
    if schema.get("type") == "record":
        named[schema["name"]] = schema
    return schema


def _avro_kind(schema: Any, named: dict[str, Any]) -> Kind:
    found = _avro_type(schema, named)
    items = _avro_kind(found["items"], named) if found.get("type") == "array" else None
    return Kind(found.get("connect.name") or "", found.get("connect.parameters") or {}, items, found.get("type") or "")
