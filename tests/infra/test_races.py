"""What several make at a time, having looked and found nothing, is made once, and nobody meets a half of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from rivermeet.assets.defs.runs import prepare_instance
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.settings import PROJECT, Settings
from tests.reliability import handled


def test_sources_that_ask_for_one_schema_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both_have_written, replace = Barrier(2), Path.replace

    def after_both(half: Path, whole: Path) -> Path:
        both_have_written.wait(20)
        return replace(half, whole)

    monkeypatch.setattr(Path, "replace", after_both)
    monkeypatch.setattr(Registry, "_request", lambda *_: {"schema": '"string"'})

    def asked(_: int) -> object:
        return Registry("http://registry", tmp_path)._read_cached("/schemas/ids/1", "1", "")

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(asked, range(2))) == [{"schema": '"string"'}] * 2
    handled("Kafka", "sources that ask for one schema at the same time", "each has it")


def test_a_process_that_starts_while_another_writes_dagsters_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.from_env({"RIVERMEET_HOME": str(tmp_path)})
    monkeypatch.setenv("DAGSTER_HOME", "")
    config = prepare_instance(settings) / "dagster.yaml"
    ours = (PROJECT / "infra" / "dagster.yaml").read_bytes()
    config.write_bytes(b"of: before")
    seen, write_bytes = [], Path.write_bytes

    def in_two_parts(file: Path, data: bytes) -> int:
        write_bytes(file, data[:10])
        seen.append(config.read_bytes())
        return write_bytes(file, data)

    monkeypatch.setattr(Path, "write_bytes", in_two_parts)
    prepare_instance(settings)
    assert (seen, config.read_bytes()) == ([b"of: before"], ours)
    assert [file.name for file in config.parent.iterdir()] == ["dagster.yaml"]
    handled("runs", "processes that start in one home at the same time", "none meets a half of a file of Dagster's")
