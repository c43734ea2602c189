"""A thousand declared nodes load in Dagster in a few seconds, and what it keeps of them grows with their number alone.

What it keeps is the serialized repository that the code server sends. Conditions that named every source of a pipeline
made it grow with the square: 37 MB of a thousand nodes in one pipeline, 18 MB without.
"""

from __future__ import annotations

from time import process_time

import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_shared.serdes import serialize_value

from rivermeet.assets.definitions import definitions
from rivermeet.assets.project import Project
from rivermeet.infra.engine.sessions import Sessions
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Pipeline

_FILES = Files("none/*.csv", "csv", {"id": "STRING", "of": "STRING", "n": "INT", "at": "BIGINT"})


def wide(name: str, nodes: int) -> Pipeline:
    """Ten by ten: two sources, their join by foreign key, and seven filters, each of the one before."""
    made = Pipeline(name)
    for ten in range(nodes // 10):
        left, right = (
            made.table(f"{side}_{ten}", _FILES, key=["id"], value=["of", "n"], timestamp="at")
            for side in ("left", "right")
        )
        last = left.join(right, f"join_{ten}", foreign_key="of", select={"n": "left.n", "of": "right.of"})
        for step in range(7):
            last = last.filter(f"n > {step}", f"filter_{ten}_{step}")
    assert len(made.stored) == nodes
    return made


def loaded(pipelines: list[Pipeline]) -> tuple[RepositorySnap, float]:
    """What the code server sends of these pipelines, and the processor's seconds that it took."""
    began = process_time()
    settings = Settings.from_env()
    repository = definitions(Project(settings, Sessions(settings), tuple(pipelines))).get_repository_def()
    repository.load_all_definitions()
    sent = RepositorySnap.from_def(repository)
    return sent, process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize("pipelines", [1, pytest.param(10, marks=pytest.mark.prove)])
def test_a_thousand_nodes(pipelines: int) -> None:
    each = 1000 // pipelines
    few, _ = loaded([wide("few", 100)])
    many, seconds = loaded([wide(f"many_{n}", each) for n in range(pipelines)])
    changelogs = [asset for asset in many.asset_nodes if asset.asset_key.path[-1].endswith("_changelog")]
    assert len(changelogs) == 1000
    assert len(serialize_value(many)) < 11 * len(serialize_value(few))
    assert seconds < 20, "5 to 7 s on a quiet machine"
