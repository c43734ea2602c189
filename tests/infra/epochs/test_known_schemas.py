"""What frames say of themselves without asking the engine is what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from rivermeet.infra.delta.changelog_files import records
from rivermeet.infra.engine.session import new_session
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.inputs import PinnedInputs
from rivermeet.joins.order import in_processing_order
from rivermeet.pipelines import Files, Pipeline
from rivermeet.records.known_schemas import with_schema
from tests.infra.epochs.test_requests import counted
from tests.world import World

PIPELINE = Pipeline("known")
FILES = Files("none/*.csv", "csv", {"k": "STRING", "v": "STRING", "ts": "BIGINT"})
TABLE = PIPELINE.table("t", FILES, key=["k"], value=["v"], timestamp="ts", partitions=2)
KEPT = TABLE.filter("v IS NOT NULL", "kept")
TYPES = "key STRUCT<k: STRING, n: DECIMAL(9, 2)>, value STRUCT<v: ARRAY<STRUCT<a: DATE>>, m: MAP<STRING, BOOLEAN>>"


def unlike(frame: DataFrame) -> tuple[str, str] | None:
    """What a frame says and what the engine says of it, where these differ: not in what may be null."""
    said, asked = (schema.simpleString() for schema in (frame.schema, frame.select("*").schema))
    return None if said == asked else (said, asked)


@pytest.fixture
def pinned(spark: SparkSession, tmp_path: Path) -> PinnedInputs:
    world = World(tmp_path, spark, new_session(spark), {"t": TYPES})
    world.publish(TABLE, [(("a", None), ([], {}), 1, 0)])
    step = world.step(KEPT)
    plan = step.plan(None, None, 1)
    assert plan is not None
    return step.pin(spark, plan)


FRAMES: dict[str, Callable[[PinnedInputs, SharedFrames], DataFrame]] = {
    "records of a changelog": lambda pinned, _: records(pinned.spark, pinned.paths("left").changelog, {}, {0: 0}),
    "new records": lambda pinned, _: pinned.new("left"),
    "in order": lambda pinned, _: in_processing_order(pinned.new("left"), 0),
    "in order and kept": lambda pinned, shared: shared.keep(in_processing_order(pinned.new("left"), 0)),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("many", [10, None])
def test_nothing_is_asked_and_the_engine_says_the_same(pinned: PinnedInputs, name: str, many: int | None) -> None:
    with SharedFrames("known", many) as shared:
        frame = FRAMES[name](pinned, shared)
        with counted() as asked:
            assert isinstance(frame.schema, StructType)
        assert not asked["_analyze"]
        assert unlike(frame) is None


def test_a_schema_that_is_not_so_is_seen(pinned: PinnedInputs) -> None:
    assert unlike(with_schema(pinned.new("left"), StructType().add("key", StringType()))) is not None
