"""What the quality report is made from: rows of the ``quality`` table and lines of the epoch log, read without Spark.

Of each node its newest epochs are taken, those that were judged and those that were measured alike: one that was
committed and not judged has to be seen. Held by ``tests/assets/reports/test_report.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rivermeet.assets.defs.lineage import described
from rivermeet.assets.shadow.recorded import last_recorded
from rivermeet.pipelines import Kafka, Node, Pipeline, Postgres

if TYPE_CHECKING:
    from rivermeet.assets.epoch.platform import Platform
    from rivermeet.expectations.report.page import LogLine, NodeHistory, PipelineHistory, TopicLine

SHOWN_EPOCHS = 500
IDENTITY = ("node", "epoch", "invariant", "run", "judged_at")
LONG = {"sql": "", "sample": "[]"}
"""Columns of the quality table that are long, and what stands for them where they are not read."""
Lines = Sequence[Mapping[str, Any]]


def histories(platform: Platform, pipelines: Sequence[Pipeline], shown: int = SHOWN_EPOCHS) -> list[PipelineHistory]:
    """What is recorded of the pipelines' nodes."""
    from rivermeet.assets.reports.reasons import Reasons
    from rivermeet.expectations.report.page import PipelineHistory

    judged, reasons = _judged_epochs(platform, pipelines), Reasons(platform)
    found: list[PipelineHistory] = []
    for pipeline in pipelines:
        log = platform.runner(pipeline).log
        measured = {node.name: log.measurements(node.name) for node in pipeline.stored}
        epochs = {
            name: sorted(judged.get((pipeline.name, name), set()) | {line["epoch"] for line in lines})
            for name, lines in measured.items()
        }
        newest = {name: all_of_it[-shown:] for name, all_of_it in epochs.items()}
        rows = _judged(platform, pipeline, newest)
        nodes = [
            reasons.behind(
                _history(platform, node, newest[node.name], len(epochs[node.name]), rows.get(node.name, []), measured)
            )
            for node in pipeline.stored
        ]
        audits = [last_recorded(platform, shadow) for shadow in pipeline.shadows]
        shadows = [audit for audit in audits if audit is not None]
        found.append(PipelineHistory(pipeline.name, nodes, pipeline.description, shadows))
    return found


def _history(
    platform: Platform, node: Node, epochs: Sequence[int], recorded: int, judged: Lines, measured: Mapping[str, Lines]
) -> NodeHistory:
    from rivermeet.expectations.report.page import NodeHistory
    from rivermeet.infra.delta.io import last_note

    made = node.operation
    note = last_note(platform.runner(node.pipeline).paths(node).changelog)
    about = " ".join(filter(None, (described(made) if made else "", node.description)))
    return NodeHistory(
        node,
        about=about.replace("`", ""),
        committed=note[1].epoch if note else None,
        epochs=epochs,
        hidden=recorded - len(epochs),
        judged=judged,
        measured=[line for line in measured[node.name] if line["epoch"] in set(epochs)],
        inputs={side: measured[part.name] for side, part in made.stored_inputs.items()} if made else {},
        topic=_topic(platform, node) if note else (),
        log=_log(platform, node) if note else None,
    )


def _topic(platform: Platform, node: Node) -> list[TopicLine]:
    """What the newest plan of a source has of its topic; nobody is asked but the epoch log."""
    if node.source is None or not isinstance(node.source.reads, Kafka):
        return []
    from rivermeet.expectations.report.page import TopicLine
    from rivermeet.infra.epochs.plan import TopicSlice
    from rivermeet.infra.kafka.lag import planned_lag
    from rivermeet.infra.sources.kafka.ingest import TopicStep
    from rivermeet.infra.sources.kafka.refusals import PositionLostError

    step = platform.source_step(node)
    assert isinstance(step, TopicStep), f"{node.name} reads a topic"
    try:
        found = step.position(step.note())
    except PositionLostError:
        return []
    lag = planned_lag(found) if isinstance(found, TopicSlice) else []
    return [TopicLine(one.partition, one.consumed, one.high_watermark, one.held_back, one.consumed_ms) for one in lag]


def _log(platform: Platform, node: Node) -> LogLine | None:
    """What the newest plan of a source has read of its database; nobody is asked but the epoch log."""
    if node.source is None or not isinstance(node.source.reads, Postgres):
        return None
    from rivermeet.expectations.report.page import LogLine
    from rivermeet.infra.epochs.plan import WalRange
    from rivermeet.infra.postgres.lsn import lsn_text
    from rivermeet.infra.postgres.refusals import PositionLostError

    step = platform.source_step(node)
    try:
        found = step.position(step.note())  # pyright: ignore[reportAttributeAccessIssue]
    except PositionLostError:
        return None
    if not isinstance(found, WalRange):
        return None
    return LogLine(found.table, lsn_text(found.position), found.position - (found.start or 0), found.at)


def _judged_epochs(platform: Platform, pipelines: Sequence[Pipeline]) -> Mapping[tuple[str, str], set[int]]:
    """(pipeline, node) to the epochs that were judged."""
    import pyarrow.compute as pc

    from rivermeet.assets.quality.quality_table import quality_lines

    wanted = pc.field("pipeline").isin([pipeline.name for pipeline in pipelines])
    found: dict[tuple[str, str], set[int]] = {}
    for line in quality_lines(platform.quality, wanted, ["pipeline", "node", "epoch"]):
        found.setdefault((line["pipeline"], line["node"]), set()).add(line["epoch"])
    return found


def _judged(
    platform: Platform, pipeline: Pipeline, newest: Mapping[str, Sequence[int]]
) -> Mapping[str, list[Mapping[str, Any]]]:
    """Node to its rows of the quality table at the epochs that are shown.

    What held long ago is read without its query: of five hundred epochs of fifty nodes those are half a gigabyte.
    """
    import pyarrow.compute as pc

    from rivermeet.assets.quality.quality_table import quality_lines
    from rivermeet.expectations.history import SCHEMA
    from rivermeet.expectations.report.page import MOST

    oldest = min((epochs[0] for epochs in newest.values() if epochs), default=0)
    wanted = (pc.field("pipeline") == pipeline.name) & (pc.field("epoch") >= oldest)
    detailed = min((epochs[-MOST:][0] for epochs in newest.values() if epochs), default=0)
    has_details = wanted & ((pc.field("state") != "passed") | (pc.field("epoch") >= detailed))
    shown = {name: set(epochs) for name, epochs in newest.items()}
    details = {
        tuple(row[name] for name in IDENTITY): {name: row[name] for name in LONG}
        for row in quality_lines(platform.quality, has_details, [*IDENTITY, *LONG], oldest)
    }
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in quality_lines(platform.quality, wanted, [name for name in SCHEMA if name not in LONG], oldest):
        if row["epoch"] in shown.get(row["node"], ()):
            long = details.get(tuple(row[name] for name in IDENTITY), LONG)
            found.setdefault(row["node"], []).append({**row, **long})
    return found
