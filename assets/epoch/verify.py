"""Verification: what a node's changelog and table hold, against what its plans give when they are computed again.

An operation is computed in one pass over what its epochs took (``assets/epoch/recompute.py``), and its rows are
compared with the changelog's by (partition, offset). Of two kinds of nodes only the table is compared: of a source, as
its files may be gone, and of a join with a view, which has rows and no records.
Held by ``tests/infra/epochs/test_rebuild.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from assets.epoch.recompute import Recomputation, can_be_recomputed
from infra.delta.io import last_note, read
from infra.epochs.plan import CommitNote
from pipelines import Node
from pipelines.source import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from assets.epoch.platform import Platform
    from infra.epochs.context import EpochContext

SHOWN = 5
RECORD = ("key", "value", "timestamp")


@dataclass(frozen=True)
class Verified:
    """What was compared of a node.

    Attributes
    ----------
    rows
        Rows of the changelog; None where it was not computed again.
    differing
        Rows that are missing, too many or other; ``first`` has the first of them: partition, offset, ``committed`` and
        ``recomputed``, as JSON, None where there is no such row.
    table_differs
        Rows by which the table is not the fold of the changelog; None of a stream.
    """

    node: Node
    epoch: int
    rows: int | None
    differing: int
    first: Sequence[Mapping[str, Any]]
    table_differs: int | None

    @property
    def holds(self) -> bool:
        """Whether all that was compared is equal."""
        return not self.differing and not self.table_differs


def verify(runner: EpochContext, node: Node) -> Verified | None:
    """Compare a node with its recomputation; None where nothing is committed yet.

    No table of the node is written. Cost: one epoch over all that the node has consumed.
    """
    from infra.engine.shared_frames import SharedFrames

    paths, spark = runner.paths(node), runner.session()
    found = last_note(paths.changelog)
    if found is None:
        return None
    version, note = found
    shared = SharedFrames(f"verify_{paths.pipeline}_{paths.node}")
    try:
        rows, differing, first = None, 0, []
        if can_be_recomputed(node):
            rows = sum(end + 1 for end in note.ends.values())
            again = Recomputation(runner, node, note, spark).rows(shared)
            bad = shared.keep(_differences(read(spark, paths.changelog, version), again))
            differing = bad.count()
            first = [row.asDict() for row in bad.orderBy("partition", "offset").limit(SHOWN).collect()]
        table = _table_differs(spark, runner, node, note) if node.is_table else None
        return Verified(node, note.epoch, rows, differing, first, table)
    finally:
        shared.release()


def record(platform: Platform, found: Verified, seconds: float) -> None:
    """Keep what was compared in the quality table, where the report finds it; nothing where nothing was."""
    from assets.quality.quality_table import remember
    from expectations.results import InvariantResult
    from expectations.rules.verify import VERIFY

    if found.rows is None and found.table_differs is None:
        return
    sample = [{name: "" if value is None else str(value) for name, value in row.items()} for row in found.first]
    bad = found.differing + (found.table_differs or 0)
    result = InvariantResult(VERIFY, found.rows, bad, sample, "", seconds, scope="whole", judged_by="spark")
    remember(platform.quality, found.node, found.epoch, [result], f"verify-{uuid4().hex}", "verify")


def _differences(committed: DataFrame, recomputed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    place = ["partition", "offset"]

    def shown(frame: DataFrame, name: str) -> DataFrame:
        return frame.select(*place, _text(RECORD).alias(name))

    both = shown(committed, "committed").join(shown(recomputed, "recomputed"), place, "full_outer")
    return both.where(~F.col("committed").eqNullSafe(F.col("recomputed")))


def _text(columns: Sequence[str]) -> Column:
    """Columns as text: of a MAP, Spark has no other way to compare it."""
    from pyspark.sql import functions as F

    from infra.sources.parquet import CLOCKS

    return F.to_json(F.struct(*(F.col(quoted(c)) for c in columns)), {"ignoreNullFields": "false", **CLOCKS})


def _table_differs(spark: SparkSession, runner: EpochContext, node: Node, note: CommitNote) -> int | None:
    from pyspark.sql import functions as F

    from infra.delta.changelog_files import records
    from records.changelog import table_rows

    paths = runner.paths(node)
    folded = last_note(paths.table)
    if folded is None:
        return None
    version, upto = folded
    if upto.incarnation != note.incarnation:
        # Behind by a rebuild that was killed: the next run folds it.
        return None
    changelog = records(spark, paths.changelog, {}, upto.ends)
    wanted = table_rows(changelog).where(~F.col("_deleted")).drop("_deleted")
    columns = [*node.key, *node.value, "_timestamp", "_partition", "_offset"]
    held = read(spark, paths.table, version).select(_text(columns))
    wanted = wanted.select(_text(columns))
    return wanted.exceptAll(held).count() + held.exceptAll(wanted).count()
