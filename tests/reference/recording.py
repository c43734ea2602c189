"""Recorded answers of Kafka Streams as files: read, by group, and made again by the oracle.

A file has one JSON case a line, with its `output`. A case's name is its group and a number, "ss.kafka-4.left.0007".
"""

import gzip
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Case = dict[str, Any]


def read(path: Path) -> list[Case]:
    """The cases of a file."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()]


def by_group(path: Path) -> dict[str, list[Case]]:
    """The cases of a file by the group in their names."""
    groups: dict[str, list[Case]] = {}
    for case in read(path):
        groups.setdefault(case["name"].rpartition(".")[0], []).append(case)
    return groups


def record(path: Path, oracle: str, asked: Sequence[Case], versions: Mapping[str, str]) -> None:
    """Ask the oracle, each profile's version once for all of its cases, and write what it answers."""
    outputs: dict[str, Any] = {}
    for semantics, version in versions.items():
        own = [case for case in asked if case["semantics"] == semantics]
        outputs.update((answer["name"], answer["output"]) for answer in answers(oracle, version, own))
    lines = [json.dumps({**case, "output": outputs[case["name"]]}, separators=(",", ":")) for case in asked]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


def answers(oracle: str, version: str, asked: Sequence[Case]) -> list[Case]:
    """The oracle's answers in the order asked."""
    with tempfile.TemporaryDirectory() as directory:
        question, answer = Path(directory, "in.json"), Path(directory, "out.json")
        question.write_text(json.dumps(asked))
        subprocess.run([oracle, version, str(question), str(answer)], check=True)
        return json.loads(answer.read_text())
