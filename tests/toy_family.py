"""A family that the project does not know: the records of two streams in one, each named after its side.

Its declaration, its operator, and what is registered of it; nothing of the project is changed for it.

    left  a {v: x}     a {tagged: 'left: x'}
    right a {v: y}     a {tagged: 'right: y'}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.operator import OPERATORS, EpochFrames, EpochInputs, StateRead, register
from rivermeet.pipelines import Files, Node, Operation, Pipeline, Stream


@dataclass(frozen=True, kw_only=True)
class Tagged(Operation):
    """Records of both streams, with the side before the value."""

    left: Stream
    right: Stream
    select: Mapping[str, str] = field(default_factory=lambda: {"tagged": "v"})

    family = "tagged"
    triggers = ("left", "right")

    @property
    def inputs(self) -> Mapping[str, Node]:
        """Both streams."""
        return {"left": self.left, "right": self.right}

    @property
    def detail(self) -> str:
        """What a reader of the graph is shown."""
        return ", each with its side"

    @property
    def undroppable(self) -> str | None:
        """A row that is lost is missed."""
        return "tags every record, and one without a tag is missed"


def state(join: Tagged) -> StateRead:
    """Nothing."""
    return {}


def compute(join: Tagged, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    return EpochFrames(_rows(inputs.left, "left").unionByName(_rows(inputs.right, "right")))


def _rows(records: DataFrame, side: str) -> DataFrame:
    tagged = F.concat(F.lit(f"{side}: "), F.col("value.v"))
    return records.select(
        "key",
        F.struct(tagged.alias("tagged")).alias("value"),
        "timestamp",
        "partition",
        F.struct(F.lit(side).alias("side"), "partition", "offset").alias("trigger"),
        F.col("order").alias("sequence"),
    )


@contextmanager
def registered() -> Iterator[None]:
    """The family is known within the block."""
    register(Tagged, {"3.1": "tests.toy_family"})
    yield
    del OPERATORS[Tagged]


def declared() -> Pipeline:
    """Two sources and a node of the family."""
    pipeline = Pipeline("toy")
    one, two = (
        pipeline.stream(
            name,
            Files(f"{name}/*.csv", "csv", {"k": "STRING", "v": "STRING", "at": "BIGINT"}),
            key=["k"],
            value=["v"],
            timestamp="at",
            partitions=1,
        )
        for name in ("one", "two")
    )
    node = Stream(
        pipeline=pipeline,
        name="both",
        key=one.key,
        value=("tagged",),
        partitions=1,
        origin=Tagged(left=one, right=two),
    )
    pipeline.add(node)
    return pipeline
