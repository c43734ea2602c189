"""What a source's epoch asks of the engine: queries, analyses and settings, counted where they leave the client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from traceback import extract_stack
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.sources.files import ingest
from tests.infra.sources.feeding import fed

pytestmark = pytest.mark.slow
ASKED = ("ExecutePlan", "AnalyzePlan", "Config", "AddArtifacts", "ArtifactStatus")
"""Not the release of an execution's answer, which nobody waits for."""
MOST = 6


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


@pytest.mark.parametrize("format", ["csv", "json"])
def test_an_epoch_of_a_hundred_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    source = fed(spark, tmp_path, format=format)
    line = "k%d,%d,%d" if format == "csv" else '{"id": "k%d", "n": %d, "at": %d}'
    for epoch in range(3):
        lines = [line % (n, n, n) for n in range(100 * epoch, 100 * epoch + 100)]
        source.deliver(**{f"{epoch}__{format}": "\n".join(["id,n,at", *lines] if format == "csv" else lines)})
        with monkeypatch.context() as patched:
            asked = counted(source.world.spark, patched)
            assert source.run().rows == 100
        assert epoch == 0 or asked.total() <= MOST, (epoch, asked)
    assert len(source.records()) == 300


@pytest.mark.parametrize("format", ["csv", "json"])
def test_rows_are_counted_and_not_guessed_from_bytes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """Whether an epoch is compiled depends on them: gzip has a quarter of the bytes, long rows have more."""
    asked: list[int] = []
    monkeypatch.setattr(ingest, "fit_compilation", lambda _, rows: asked.append(rows))
    source, long = fed(spark, tmp_path, format=format), "k" * 5_000
    lines = ["id,n,at", f"{long},1,1", f"{long},2,2"]
    if format == "json":
        lines = [f'{{"id": "{long}", "n": {n}, "at": {n}}}' for n in (1, 2)]
    source.deliver(**{f"a__{format}": "\n".join(lines)})
    assert source.run().rows == 2 and asked == [2]
