"""Schemas are asked for once; one that nobody has is no failure, and a registry that does not answer is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rivermeet.infra.settings import SettingsError
from rivermeet.infra.sources.kafka.formats.registry import Registry
from rivermeet.infra.sources.kafka.refusals import RegistryUnavailableError
from tests.infra.sources.kafka.formats.schemas import Schemas, served


@pytest.fixture
def schemas() -> Iterator[Schemas]:
    with served({7: {"schema": '"string"'}}) as started:
        yield started


def test_a_schema_is_asked_for_once(schemas: Schemas, tmp_path: Path) -> None:
    registry = Registry(schemas.url, tmp_path)
    assert [registry.schema(7), registry.schema(7)] == [{"schema": '"string"'}] * 2
    assert Registry(schemas.url, tmp_path).schema(7) == {"schema": '"string"'}, "kept from run to run"
    assert schemas.asked == ["/schemas/ids/7"]
    assert [file.name for file in tmp_path.glob("*/*")] == ["7.json"]


def test_an_id_that_nobody_has(schemas: Schemas, tmp_path: Path) -> None:
    registry = Registry(schemas.url, tmp_path)
    assert [registry.schema(8), registry.schema(8)] == [None, None]
    assert schemas.asked == ["/schemas/ids/8"], "asked once a run"
    schemas.known[8] = {"schema": '"int"'}
    assert Registry(schemas.url, tmp_path).schema(8) == {"schema": '"int"'}, "and again in the next"


def test_form_and_user(schemas: Schemas, tmp_path: Path) -> None:
    schemas.user = "ann:p@ss"
    with pytest.raises(RegistryUnavailableError, match="status 401") as refused:
        Registry(schemas.url, tmp_path).schema(7)
    assert "127.0.0.1" not in str(refused.value)
    url = schemas.url.replace("http://", "http://ann:p%40ss@")
    assert Registry(url, tmp_path).schema(7, "serialized") == {"schema": '"string"'}
    assert schemas.asked[-1] == "/schemas/ids/7?format=serialized"
    assert "ss@" not in repr(Registry(url, tmp_path))


@pytest.mark.parametrize("status", [404, 500, 503])
def test_what_is_no_answer(schemas: Schemas, tmp_path: Path, status: int) -> None:
    schemas.fails = status
    with pytest.raises(RegistryUnavailableError, match=f"status {status}"):
        Registry(schemas.url, tmp_path).schema(7)


def test_down_or_unset(tmp_path: Path) -> None:
    with served({}) as stopped:
        url = stopped.url
    with pytest.raises(RegistryUnavailableError, match="ConnectionRefusedError"):
        Registry(url, tmp_path).schema(7)
    with pytest.raises(SettingsError, match="set RIVERMEET_SCHEMA_REGISTRY"):
        Registry("", tmp_path).schema(7)
