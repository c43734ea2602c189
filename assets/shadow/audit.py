"""The audit of a running application: what its output topic lacks, and has too much, against our rows of the node.

    1. mark       how far the application has read, and only then where its output ends (``assets/shadow/marks.py``)
    2. run        our nodes, if asked: they have read at least as far then
    3. compare    our rows by profile kafka-4, as far as the node has consumed its inputs, with the output so far

In this order the output holds all that comes of the records up to the first mark. What later ones cause is not
compared: ours may have it, theirs need not. So the application may go on writing meanwhile.

Our rows are those of the node's epochs; where it follows another profile they are computed again, in the same order
(``assets/epoch/recompute.py``). All differences are kept in a table of their own, which the next audit replaces. Held
by ``tests/assets/shadow``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rivermeet.assets.epoch.recompute import Recomputation, can_be_recomputed
from rivermeet.assets.project import Project
from rivermeet.assets.shadow.marks import Marks
from rivermeet.assets.shadow.positions import TopicInput, topic_inputs
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.engine.shared_frames import SharedFrames
from rivermeet.infra.epochs.context import EpochContext
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.infra.shadow.application import Progress, decode, land
from rivermeet.joins.shadow.answers import Answers, shape_differences
from rivermeet.joins.shadow.compare import Cause, causes_of, compare, profile_of
from rivermeet.pipelines import Node, Shadow, limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class NothingToCompareError(EpochRefusedError):
    """The node has no rows of its own yet."""

    remedy = "Run the node first."


@dataclass(frozen=True)
class Difference:
    """A kind and cause, how many there are, and the first of them as they are kept."""

    kind: str
    cause: Cause
    count: int
    first: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Shadowed:
    """What an audit came to.

    Attributes
    ----------
    epoch, profile
        Our rows: up to which epoch of the node, by which profile.
    inputs
        The topics below the node, as far as we have read them.
    records, undecodable
        Records of the output, and how many of them are none of the node's; ``why`` has the first reasons.
    keys, equal, otherwise
        Keys of a table, or distinct rows of a stream, on either side; equal ones; those (of a stream: keys) that are
        equal and came in another order, or with other rows in between.
    path
        Table of all differences.
    """

    shadow: Shadow
    epoch: int
    profile: str
    marks: Marks
    inputs: Sequence[TopicInput]
    records: int
    undecodable: int
    why: Sequence[str]
    keys: int
    equal: int
    otherwise: int
    differences: Sequence[Difference]
    path: str
    seconds: float = 0.0
    at: int = field(default_factory=lambda: int(time.time() * 1000))

    @property
    def losses(self) -> int:
        """Differences that nothing explains."""
        return sum(found.count for found in self.differences if not found.cause.explained)

    @property
    def explained(self) -> int:
        """Differences that the freedom of interleaving explains, and what is not compared."""
        return sum(found.count for found in self.differences if found.cause.explained)

    @property
    def ahead(self) -> int:
        """Offsets of the inputs that the application has read and we have not: what comes of them is not ours yet."""
        return _ahead(self.inputs, self.marks.progress)

    @property
    def waiting(self) -> int:
        """Records of the application's own topics that it has not read: answers that are on their way."""
        return 0 if self.marks.progress is None else sum(self.marks.progress.waiting.values())

    @property
    def holds(self) -> bool:
        """Whether the application's output has all that ours has, and no more."""
        return not self.losses and not self.undecodable


def audit(project: Project, shadow: Shadow, marks: Marks) -> Shadowed:
    """Compare what is committed of the node with the application's output.

    Raises
    ------
    NothingToCompareError
        Where the node has no epoch.
    TopicRefusedError
        Where the output cannot be read.
    """
    start, node = time.monotonic(), shadow.node
    context = project.context(node.pipeline)
    found = last_note(context.paths(node).changelog)
    if found is None:
        name = f"{node.pipeline.name} --select {node.name}"
        raise NothingToCompareError(f"'{node.name}' has no rows that could be compared: `rivermeet run {name}`")
    version, note = found
    assert node.operation is not None
    profile = profile_of(node.operation)
    inputs = topic_inputs(context, node, note)
    spark = context.session()
    ours = _Ours(context, node, version, note, spark)
    read_upto, ahead = _find_progress(inputs, marks.progress), _ahead(inputs, marks.progress)
    records = sum(end + 1 for ends in note.consumed.values() for end in ends.values())
    name = f"shadow_{node.pipeline.name}_{node.name}"
    # What is kept is freed before the files go that it is read from.
    with _theirs(project, shadow, marks, ours) as (output, count), SharedFrames(name, records + count) as shared:
        theirs = shared.keep(output)
        undecodable, why = _reasons(theirs)
        compared = compare(node, ours.answers(profile, theirs, shared, read=read_upto, is_ahead=ahead > 0))
        path = context.paths(node).shadow(shadow.topic)
        shown = shape_differences(compared.differences)
        shown.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
        ((keys, equal, otherwise),) = compared.compared.collect()
        differences = _first(spark, path, node)
    return Shadowed(
        *(shadow, note.epoch, profile, marks, inputs, count, undecodable, why, keys, equal, otherwise),
        differences=differences,
        path=path,
        seconds=time.monotonic() - start,
    )


@dataclass(frozen=True)
class _Ours:
    context: EpochContext
    node: Node
    version: int
    note: CommitNote
    spark: SparkSession

    @property
    def changelog(self) -> DataFrame:
        return read(self.spark, self.context.paths(self.node).changelog, self.version)

    def types(self, column: str) -> Mapping[str, str]:
        """Columns of key or value with their types as the changelog has them."""
        fields: Any = self.changelog.schema[column].dataType
        return {one.name: one.dataType.simpleString() for one in fields.fields}

    def answers(self, profile: str, theirs: DataFrame, shared: SharedFrames, **positions: Any) -> Answers:
        """Both answers, and the inputs that they come from."""
        operation = self.node.operation
        assert operation is not None
        good = theirs.where("reason IS NULL")
        if not can_be_recomputed(self.node):
            return Answers(self.changelog, good, keep=shared.keep, **positions)
        again = Recomputation(self.context, self.node, self.note, self.spark, profile)
        rows = self.changelog if operation.semantics == profile else again.rows(shared)
        return Answers(
            ours=shared.keep(rows),
            theirs=good,
            left=shared.keep(again.take("left")) if "left" in operation.inputs else None,
            right=shared.keep(again.take("right")) if "right" in operation.inputs else None,
            keep=shared.keep,
            **positions,
        )


@contextmanager
def _theirs(project: Project, shadow: Shadow, marks: Marks, ours: _Ours) -> Iterator[tuple[DataFrame, int]]:
    """The application's rows, as long as their files last, and how many records they come from."""
    node, key, value = shadow.node, ours.types("key"), ours.types("value")
    topic = shadow.reads(value)
    # No node can be called so: its own landing is not touched.
    folder = project.settings.landing / node.pipeline.name / shadow.id
    name = f"{node.pipeline.name}.{node.name}"
    with land(project.connection, project.registry, topic, marks.output, folder, name) as output:
        yield decode(output.landing.read(ours.spark), topic, key, value), output.records


def _ahead(inputs: Sequence[TopicInput], progress: Progress | None) -> int:
    return 0 if progress is None else sum(one.ahead(progress) for one in inputs)


def _find_progress(inputs: Sequence[TopicInput], progress: Progress | None) -> dict[str, dict[int, int]]:
    """By side up to where the application has read; a side that it has read completely is absent."""
    found: dict[str, dict[int, int]] = {}
    for one in inputs if progress is not None else ():
        assert progress is not None
        upto = one.map_progress(progress)
        if upto is not None:
            # Behind other nodes no record is known to have been read; of several topics the least counts.
            found[one.side] = upto if one.side not in found else {}
    return found


def _reasons(theirs: DataFrame) -> tuple[int, list[str]]:
    from pyspark.sql import functions as F

    bad = theirs.where(F.col("reason").isNotNull())
    ((count,),) = bad.agg(F.count("*")).collect()
    if not count:
        return 0, []
    first = (
        bad.orderBy("partition", "offset").limit(limits.SHOWN_ROWS).select("partition", "offset", "reason").collect()
    )
    return count, [f"partition {p}, offset {offset}: {reason}" for p, offset, reason in first]


def _first(spark: SparkSession, path: str, node: Node) -> list[Difference]:
    """Counts by kind and cause, losses first, with the first differences of each."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    table = open_table(path)
    assert table is not None
    alike = Window.partitionBy("kind", "cause")
    numbered = read(spark, path, table.version()).withColumns(
        {
            "count": F.sum("copies").over(alike),
            "place": F.row_number().over(alike.orderBy("key", "theirs.partition", "theirs.offset", "ours.offset")),
        }
    )
    rows = [
        row.asDict(recursive=True)
        for row in numbered.where(F.col("place") <= limits.SHOWN_ROWS).orderBy("place").collect()
    ]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["kind"], row["cause"]), []).append(row)
    causes = causes_of(node.operation)
    listed = [Difference(kind, causes[cause], lines[0]["count"], lines) for (kind, cause), lines in found.items()]
    return sorted(listed, key=lambda one: (one.cause.explained, one.cause.id, one.kind))
