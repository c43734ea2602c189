"""A family that the project does not know: the records of two streams in one, each named after its side.

Its declaration, its operator, its rules, what explains its rows, and the value that names them all. Nothing of the
project is changed for it: it is found by an entry point, or registered.

    left  a {v: x}     a {tagged: 'left: x'}
    right a {v: y}     a {tagged: 'right: y'}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.expectations.invariant import Invariant
from rivermeet.joins.operator import EpochFrames, EpochInputs, StateRead
from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow, named
from rivermeet.pipelines import Files, Node, Operation, Pipeline, Stream
from rivermeet.pipelines.family import GROUP, Family, known_families, register


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


NAMES = {"left": "left", "right": "right"}


def state(join: Tagged) -> StateRead:
    """Nothing."""
    return {}


def compute(join: Tagged, inputs: EpochInputs) -> EpochFrames:
    """Rows of one epoch: columns of `EpochFrames`."""
    return EpochFrames(_rows(inputs.left, "left").unionByName(_rows(inputs.right, "right")))


def _rows(records: DataFrame, side: str) -> DataFrame:
    tagged = F.concat(F.lit(f"{NAMES[side]}: "), F.col("value.v"))
    return records.select(
        "key",
        F.struct(tagged.alias("tagged")).alias("value"),
        "timestamp",
        "partition",
        F.struct(F.lit(side).alias("side"), "partition", "offset").alias("trigger"),
        F.col("order").alias("sequence"),
    )


def made_of(operation: Tagged, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """The record that is tagged."""
    return Made({trigger.side: trigger}, (f"it is tagged {trigger.side}",))


def missing(operation: Tagged, key: Key, evidence: Evidence) -> list[Reason]:
    """Why no record of a key is tagged: neither side has one."""
    return [
        Reason(f"no-{side}", f"nothing to tag: '{node.name}' has no record of {named(key)}", asked=(side, key))
        for side, node in operation.inputs.items()
        if not evidence.records(side, key)
    ]


RULES = (
    Invariant(
        id="tagged_by_its_side",
        sentence="A row is tagged with the side of its record.",
        document="toy family",
        section="whole",
        families=frozenset({"tagged"}),
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=lambda node: "SELECT * FROM {rows} WHERE NOT startswith(value.tagged, trigger.side)",
    ),
)
HERE = "tests.toy_family"
FAMILY = Family(declaration=Tagged, operators={"3.1": HERE}, rules=HERE, why=HERE)


@contextmanager
def registered() -> Iterator[None]:
    """The family is known within the block, in this process."""
    register(FAMILY)
    try:
        yield
    finally:
        known_families.cache_clear()


@contextmanager
def installed(folder: Path, name: str = Tagged.family) -> Iterator[None]:
    """A distribution in ``folder`` names the family; within the block it lies on the path."""
    facts = folder / "toy-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {HERE}:FAMILY\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        known_families.cache_clear()
        try:
            yield
        finally:
            known_families.cache_clear()


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
