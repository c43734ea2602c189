"""A distribution adds to each of the four groups by an entry point, without a change to ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.expectations import invariants
from rivermeet.infra.settings import PROJECT
from rivermeet.pipelines import Files, Kafka, Pipeline
from tests.toy_format import Pairs

ENTRY_POINTS = """
[rivermeet.families]
tagged = tests.toy_family:FAMILY
[rivermeet.sources]
feed = tests.toy_source:KIND
[rivermeet.formats]
pairs = tests.toy_format:FORMAT
[rivermeet.rules]
house = tests.toy_format:RULES
"""
USES = """
from rivermeet.pipelines.family import families
from rivermeet.infra.source_kinds import kind_of
from rivermeet.infra.kafka.formats.codecs import decoder
from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.expectations.invariants import invariants_of
from rivermeet.pipelines import Pipeline
from tests.toy_format import Pairs
from tests.toy_source import Feed
from pathlib import Path

texts = Pipeline("news").table("texts", Feed("/feed"))
print(families()["tagged"].name, kind_of(texts).name)
decode = decoder(Pairs({"id": "STRING"}), "value", Registry("", Path()))
print(decode(b"id=a;n=1").text, "/", decode(b"id").problem)
print([rule.id for rule in invariants_of(texts)][-1])
"""


def written(folder: Path, entry_points: str = ENTRY_POINTS) -> Path:
    """A folder of a path on which such a distribution is installed."""
    facts = folder / "toy-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(entry_points)
    return folder


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """It is installed in this process, too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(written(tmp_path))
        invariants.load_installed.cache_clear()
        yield tmp_path
    invariants.load_installed.cache_clear()


def test_all_four_are_found(tmp_path: Path) -> None:
    path = os.pathsep.join([str(written(tmp_path)), str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", USES]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "tagged feed",
        '{"id": "a", "n": "1"} / the value has a part without a sign of equality',
        "after_the_war",
    ]


def test_a_format_from_outside_is_declared_as_ours_are() -> None:
    topic = Kafka("news", value=Pairs({"id": "STRING", "n": "INT"}))
    assert topic.value_columns == {"id": "STRING", "n": "INT"}


def test_a_rule_has_a_name_of_its_own(installed: Path) -> None:
    assert "after_the_war" in {rule.id for rule in invariants.load_installed()}
    (installed / "toy-1.0.dist-info" / "entry_points.txt").write_text(
        "[rivermeet.rules]\na = tests.toy_format:RULES\nb = tests.toy_format:RULES\n"
    )
    invariants.load_installed.cache_clear()
    with pytest.raises(invariants.RuleTakenError, match=r"RULES gives a rule 'after_the_war'.*uninstall"):
        invariants.load_installed()


def test_an_installed_rule_is_a_check_of_every_asset(installed: Path) -> None:
    pipeline = Pipeline("news")
    files = Files("*.csv", "csv", {"id": "STRING", "at": "BIGINT"})
    texts = pipeline.stream("texts", files, key=["id"], timestamp="at")
    assert "after_the_war" in {check.name for check in node_assets(texts).check_specs}
