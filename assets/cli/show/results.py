"""The first rows of every join's result, its counts, and a line for each of its checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermeet.assets.cli.show.rows import table
from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.cli.terminal import echo
from rivermeet.assets.project import Project
from rivermeet.assets.quality.quality_table import last_states
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.delta.lines import open_table
from rivermeet.pipelines import Node, Pipeline, limits
from rivermeet.pipelines.expressions import quote
from rivermeet.pipelines.plural import pluralize

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructField


def print_results(project: Project, pipeline: Pipeline) -> None:
    """The first rows of every join's result, its counts, and a line for each of its checks."""
    for node in pipeline.stored:
        if node.operation is not None:
            _print_result(project, node)
    echo("")
    echo(status_table(project, pipeline))


def _print_result(project: Project, node: Node) -> None:
    from pyspark.sql import functions as F

    paths = project.paths(node)
    found = last_note(paths.changelog)
    if found is None:
        return
    version, note = found
    spark = project.sessions.open()
    records = sum(end + 1 for end in note.ends.values())
    folded = open_table(paths.table) if node.is_table else None
    if folded is not None:
        rows = read(spark, paths.table, folded.version())
        shown = rows.orderBy("_partition", "_offset")
        what = f"table, {pluralize(rows.count(), 'row')} of {pluralize(records, 'record')}"
    else:
        rows = read(spark, paths.changelog, version)
        shown = rows.orderBy("partition", "offset").select("key.*", "value.*")
        what = f"stream, {pluralize(records, 'record')}"
        if "left_offset" in rows.columns:
            alone = F.count_if(F.col("left_offset").isNull() | F.col("right_offset").isNull())
            what += f", {rows.select(alone).collect()[0][0]:,} of them one-sided"
    echo(f"\n{node.name} ({what}; epoch {note.epoch})")
    wanted = shown.drop("_partition", "_offset", "_timestamp")
    # As text of the engine's: Python has no time after the year 9999, and would show all others in a zone of its own.
    first = wanted.limit(limits.SHOWN_ROWS).select(*map(_as_text, wanted.schema)).collect()
    echo(table(wanted.columns, [["null" if cell is None else cell for cell in row] for row in first]))
    for name, found in last_states(project.quality, node).items():
        mark = {"passed": "ok  ", "violated": "BAD "}.get(found.state, "?   ")
        judged = pluralize(found.checked, "row") if found.checked is not None else "rows"
        violations = pluralize(found.violations, "violation") if found.violations is not None else "no violations"
        echo(f"  {mark}{name}: {violations} in {judged}")


def _as_text(field: StructField) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    column = F.col(quote(field.name))
    if isinstance(field.dataType, T.BinaryType):
        return F.hex(column).alias(field.name)
    return column.cast("string").alias(field.name)
