"""What a source's epoch asks of the engine: queries, analyses and settings, counted where they leave the client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from traceback import extract_stack
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.infra.sources.kinds import FIT, KINDS, ROWS

pytestmark = pytest.mark.slow
ASKED = ("ExecutePlan", "AnalyzePlan", "Config", "AddArtifacts", "ArtifactStatus")
"""Not the release of an execution's answer, which nobody waits for."""
MOST = 3
"""Rows are parsed and kept, bad ones counted, the others written."""
MOST_OF = {"topic": 5, "database": 5, "delta append": 6, "delta feed": 6}
"""The engine is asked for the types of what was landed, and of a Delta table also where its files are, or its feed's
columns; and once more for how it takes a frame of the driver's: times of versions."""


def counted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Requests of a session from now on, by kind and by the line of ours that makes them."""
    found: Counter[str] = Counter()
    stub: Any = spark.client._stub  # pyright: ignore[reportAttributeAccessIssue]

    def counting(kind: str, asked: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*given: Any, **options: Any) -> Any:
            ours = [
                frame for frame in extract_stack() if "/infra/" in frame.filename and "/tests/" not in frame.filename
            ]
            found[f"{kind} {Path(ours[-1].filename).name}: {ours[-1].line}" if ours else kind] += 1
            return asked(*given, **options)

        return ask

    for kind in ASKED:
        monkeypatch.setattr(stub, kind, counting(kind, getattr(stub, kind)))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_of_a_hundred_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Few requests, and for rows that were counted: a file's bytes say little of them, a topic's offsets not all."""
    source, rows = KINDS[kind](request), list[int]()
    for module in FIT:
        monkeypatch.setattr(module, "fit_compilation", lambda _, counted: rows.append(counted))
    for epoch in range(3):
        source.deliver(range(epoch * ROWS, (epoch + 1) * ROWS))
        with monkeypatch.context() as patched:
            asked = counted(source.spark, patched)
            found = source.run()
        assert found is not None and found.rows == ROWS
        assert epoch == 0 or asked.total() <= MOST_OF.get(kind, MOST), (epoch, asked)
    assert rows == [ROWS] * 3
