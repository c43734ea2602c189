"""Replay by the reference joins: what Kafka Streams answered, row for row; no engine, no Java, in a second."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.replay.by_reference import by_reference
from tests.reference.recording import read

GOLDEN = Path(__file__).parents[2] / "golden"
ANSWERED = ("output", "error")


@pytest.mark.parametrize("file", ["stream_stream", "foreign_key", "tables"])
def test_what_kafka_streams_answered(file: str) -> None:
    recorded = read(GOLDEN / f"oracle_{file}.jsonl.gz")
    asked = [{name: x for name, x in case.items() if name not in ANSWERED} for case in recorded]
    for case, result in zip(recorded, by_reference(asked, "3.1"), strict=True):
        # Where Kafka Streams died, a sentence names the record.
        assert ("error" in result) == ("error" in case), result
        assert result.get("output") == case.get("output"), case["name"]


HUNDRED: list[dict[str, Any]] = [
    {
        "name": "a hundred records",
        "join": "stream-stream",
        "type": "outer",
        "window": {"before_ms": 10, "after_ms": 10, "grace_ms": 5},
        "input": [
            {"side": ("left", "right")[at % 3 == 0], "key": "abc"[at % 7 % 3], "value": f"v{at}", "ts": 2 * at}
            for at in range(100)
        ],
    }
]
PROGRAM = """
import sys
from pathlib import Path

import psutil

from rivermeet.assets.cli.main import main

main(["replay", "cases.json", "-o", "out.json", "--reference"], standalone_mode=False)
print([name for name in ("pyspark", "delta", "deltalake", "duckdb", "dagster") if name in sys.modules])
print(psutil.Process().children(recursive=True))
print(sorted(path.name for path in Path().iterdir()))
"""


def test_no_engine_takes_part(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text(json.dumps(HUNDRED))
    # Nothing on the path: a Java that was asked for would not be found.
    environment = {"PATH": "", "PYTHONPATH": str(Path(__file__).parents[3]), "RIVERMEET_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == ["[]", "[]", "['cases.json', 'out.json']"], done.stderr
    (answer,) = json.loads((tmp_path / "out.json").read_text())
    assert answer == by_reference(HUNDRED, "3.1")[0]
    assert len(answer["output"]) > 50


def test_epochs_are_the_engines(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from rivermeet.assets.cli.main import main

    cases = tmp_path / "cases.json"
    cases.write_text("[]")
    refused = CliRunner().invoke(main, ["replay", str(cases), "--reference", "--epochs", "2"])
    assert refused.exit_code == 2 and "leave one of them out" in refused.output
