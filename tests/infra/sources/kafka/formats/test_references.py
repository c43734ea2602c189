"""Schemas that refer to others, put into a real registry and read back by the ids of their payloads."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("confluent_kafka")
from rivermeet.infra.kafka.formats.codecs import decoder
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.pipelines import Avro
from tests.infra.sources.kafka.formats.test_formats import BILL, CENTS, MONEY, avro, framed
from tests.servers.schema_registry import SchemaRegistry

pytestmark = pytest.mark.prove


def put(registry: SchemaRegistry, subject: str, schema: Any, **refers: str) -> int:
    """The id of a schema; ``refers``: the names it uses, dots as underscores, to the subjects that have them."""
    named = [{"name": name.replace("_", "."), "subject": of, "version": 1} for name, of in refers.items()]
    body = json.dumps({"schema": json.dumps(schema), "references": named}).encode()
    head = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    with urlopen(Request(f"{registry.url}/subjects/{subject}/versions", body, head)) as answer:
        return json.load(answer)["id"]


def test_a_record_of_a_record_of_another_subject(schema_registry: SchemaRegistry, tmp_path: Path) -> None:
    put(schema_registry, "refer-cents", CENTS)
    put(schema_registry, "refer-money", MONEY, shop_Cents="refer-cents")
    id = put(schema_registry, "refer-bill", BILL, shop_Money="refer-money")
    decode = decoder(Avro({"id": "STRING"}), "value", Registry(schema_registry.url, tmp_path))
    assert decode is not None
    named = {"type": "record", "name": "Whole", "fields": [
        {"name": "id", "type": "string"}, {"name": "cents", "type": CENTS}]}  # fmt: skip
    found = decode(framed(id, avro(named, {"id": "a", "cents": b"\x07"})))
    assert found.problem is None and found.text is not None
    assert json.loads(found.text) == {"id": "a", "sum": {"cents": base64.b64encode(b"\x07").decode()}}
    assert len(list(tmp_path.glob("*/*.json"))) == 3, "kept for the next run"
