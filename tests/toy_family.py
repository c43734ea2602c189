"""A family that the project does not know: the records of two streams in one, each named after its side.

Its declaration, its operator, its reference, its rules, the words for its rows, and the value that names them all.
Nothing of the project is changed for it: it is found by an entry point, or registered.

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
from rivermeet.joins.reference.records import Asks, Record, Row, no_row, places
from rivermeet.joins.why.evidence import Found, Key, Reason, show_key
from rivermeet.joins.why.replay import Met, Replay
from rivermeet.joins.why.words import explain_by_rule
from rivermeet.pipelines import Files, Node, Operation, Pipeline, Stream
from rivermeet.pipelines.family import GROUP, Family, load_families, register


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


@dataclass(frozen=True)
class TaggedReference:
    """The same in plain Python: each record is tagged by itself."""

    def process(self, x: Record) -> list[Row]:
        """The record with its side before its value."""
        if x.value is None:
            return no_row(x, "null-value")
        tagged = {"tagged": f"{NAMES[x.side]}: {x.value.columns['v']}"}
        return [Row(x.key, tagged, x.timestamp, x.position, **places(x), rule="joined")]


def asks(operation: Tagged) -> Asks:
    """Nothing."""
    return {}


def reference_of(operation: Tagged) -> TaggedReference:
    """The reference, which has no state."""
    return TaggedReference()


def reads(operation: Tagged, key: Key, trigger: Found | None) -> Mapping[str, Key]:
    """The key of both sides."""
    return dict.fromkeys(operation.inputs, key)


def of_row(operation: Tagged, met: Met, replayed: Replay) -> list[Reason]:
    """By which side it is tagged."""
    return [Reason("joined", f"it is tagged {met.trigger.side}")]


def of_absence(operation: Tagged, key: Key, replayed: Replay) -> list[Reason]:
    """Why no record of a key is tagged: neither side has one, or it has no value."""
    found = [explain_by_rule(replayed, one) for side in operation.inputs for one in replayed.of_key(side, key)]
    return found or [
        Reason(f"no-{side}", f"nothing to tag: '{node.name}' has no record of {show_key(key)}", asked=(side, key))
        for side, node in operation.inputs.items()
    ]


RULES = (
    Invariant(
        id="tagged_by_its_side",
        sentence="A row is tagged with the side of its record.",
        source="toy family, whole",
        families=("tagged",),
        needs_table=False,
        severity="critical",
        blocking=True,
        stage="epoch",
        violations=lambda node: "SELECT * FROM {rows} WHERE NOT startswith(value.tagged, trigger.side)",
    ),
)
HERE = "tests.toy_family"
FAMILY = Family(declaration=Tagged, operators={"3.1": HERE}, reference=HERE, rules=HERE, why=HERE)


@contextmanager
def registered(family: Family = FAMILY) -> Iterator[None]:
    """The family is known within the block, in this process."""
    register(family)
    try:
        yield
    finally:
        load_families.cache_clear()


@contextmanager
def installed(folder: Path, name: str = Tagged.family) -> Iterator[None]:
    """A distribution in ``folder`` names the family; within the block it lies on the path."""
    facts = folder / "toy-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {HERE}:FAMILY\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        load_families.cache_clear()
        try:
            yield
        finally:
            load_families.cache_clear()


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
