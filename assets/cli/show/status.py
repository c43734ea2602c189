"""A pipeline's status: per node its epoch, rows, lag and checks; what waits, and how far topics and tables are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rivermeet.assets.cli.show.rows import table
from rivermeet.assets.project import Project
from rivermeet.assets.quality.quality_table import last_states
from rivermeet.assets.refused.states import HeldState, states
from rivermeet.assets.shadow.words import last_recorded
from rivermeet.assets.sinks.delivery import sink_lag
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.stages.fold import lag_of
from rivermeet.infra.sources.standing import Standing
from rivermeet.pipelines import Node, Pipeline, Shadow
from rivermeet.pipelines.errors import RivermeetError
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.sink import TopicSink

ENGINES = {"duckdb": "DuckDB", "spark": "Spark"}


def status_table(project: Project, pipeline: Pipeline) -> str:
    """Per node: last epoch, rows, records not read yet, and the state of its checks; read without Spark."""
    context = project.context(pipeline)
    held = {node.name: [state for state in states(context, node) if state.open] for node in pipeline.stored}
    asked = {node.name: _find_standing(project, node) for node in pipeline.stored if node.source}
    lines = [_status(project, node, held[node.name], asked.get(node.name)) for node in pipeline.stored]
    header = ["node", "kind", "epoch", "rows", "lag", "late", "dead", "checks"]
    way = f"\nheld epochs: rivermeet quarantine show {pipeline.name}" if any(held.values()) else ""
    rejected = {node.name: _find_rejected(project, node) for node in pipeline.stored if node.source}
    for name, refusal in rejected.items():
        way += f"\n{name}: {refusal}" if refusal else ""
    way += "".join(f"\n{line}" for node in pipeline.stored if (line := _behind(project, node)))
    way += "".join(f"\n{name}: {line}" for name, standing in asked.items() for line in standing.lines)
    way += "".join(f"\n{_describe_sink(project, sink)}" for sink in pipeline.sinks)
    way += "".join(f"\n{_describe_shadow(project, shadow)}" for shadow in pipeline.shadows)
    engines, reasons = _judges(project, pipeline)
    return f"{pipeline.name}{engines}\n{table(header, lines)}{reasons}{way}"


def _judges(project: Project, pipeline: Pipeline) -> tuple[str, str]:
    """Which engine judged the checks that stand, and a line for each reason why that was Spark."""
    counts, reasons = Counter[str](), dict[str, list[str]]()
    for node in pipeline.stored:
        for name, found in last_states(project.quality, node).items():
            counts[found.judged_by or ""] += 1
            if found.because:
                reasons.setdefault(f"{node.name}: {found.because}", []).append(name)
    said = [f"{counts[engine]} by {name}" for engine, name in ENGINES.items() if counts[engine]]
    lines = (f"\n{reason}, so Spark judged {', '.join(names)}" for reason, names in reasons.items())
    return f" (checks judged: {', '.join(said)})" if said else "", "".join(lines)


def _find_rejected(project: Project, node: Node) -> str | None:
    """Where the bad rows lie that the source's newest epoch was refused for; None where none is, or one came since."""
    paths = project.paths(node)
    found, kept = last_note(paths.changelog), open_table(paths.rejected)
    if kept is None:
        return None
    rows = kept.to_pyarrow_dataset().to_table(columns=["epoch"])
    epoch = max(rows["epoch"].to_pylist(), default=None)
    if epoch is None or (found is not None and found[1].epoch >= epoch):
        return None
    bad = pluralize(rows.num_rows, "bad row")
    return f"epoch {epoch} was refused: {bad}, with file, line and reason, in {paths.rejected}"


def _describe_sink(project: Project, sink: TopicSink) -> str:
    lag = sink_lag(project, sink)
    behind = f"{lag.due} behind" if lag.epochs else "all of it"
    return f"{sink.node.name}: delivered to topic '{sink.topic}' up to epoch {lag.epoch}, {behind}"


def _describe_shadow(project: Project, shadow: Shadow) -> str:
    found = last_recorded(project, shadow)
    said = "not compared yet"
    if found is not None:
        said = f"at epoch {found['epoch']} {found['losses']:,} lost or wrong, {found['explained']:,} explained"
        said += f", {found['undecodable']:,} unreadable" if found["undecodable"] else ""
    return f"{shadow.node.name}: an application's topic '{shadow.topic}': {said}"


def _behind(project: Project, node: Node) -> str | None:
    """How far a node's table is behind its changelog; None where it is not."""
    context = project.context(node.pipeline)
    found, folded = last_note(context.paths(node).changelog), last_note(context.paths(node).table)
    lag = lag_of(context, node, found[1]) if found is not None and node.is_table else None
    if lag is None or folded is None or not lag.epochs:
        return None
    behind = f"{pluralize(lag.epochs, 'epoch')} and {pluralize(lag.records, 'record')} behind"
    return f"{node.name}: its table is at epoch {folded[1].epoch}, {behind}"


def _status(project: Project, node: Node, held: Sequence[HeldState], asked: Standing | None) -> list[Any]:
    context = project.context(node.pipeline)
    found = last_note(context.paths(node).changelog)
    waiting = [f"epoch {s.held.epoch} {s.state}: {', '.join(s.held.invariants)}" for s in held]
    if found is None:
        return [node.name, node.kind, None, None, None, None, None, "; ".join([*waiting, "not materialised yet"])]
    note = found[1]
    measured = [m for m in context.log.measurements(node.name) if m["epoch"] >= note.since]
    judged = last_states(project.quality, node)
    decided = dict.fromkeys(note.decided.invariants, f" ({note.decided.summary})") if note.decided else {}
    bad = [f"{name}: {state}{decided.get(name, '')}" for name, (state, *_) in judged.items() if state != "passed"]
    checks = "; ".join(bad) if bad else f"{len(judged)} passed" if judged else "not checked"
    return [
        node.name,
        node.kind,
        note.epoch,
        sum(end + 1 for end in note.ends.values()),
        asked.behind if asked is not None else _lag(project, node, note),
        sum(m.get("late", 0) for m in measured) if node.operation else None,
        # Of a source those that are open.
        project.source_step(node).open_letters().count
        if node.source
        else sum(m.get("dead_letter", 0) for m in measured),
        "; ".join([*waiting, checks]),
    ]


def _find_standing(project: Project, node: Node) -> Standing:
    """How far a source is behind what it reads, or why nobody knows; each broker and server is asked once."""
    try:
        return project.source_step(node).find_standing()
    except RivermeetError as why:
        return Standing(None, (str(why),))


def _lag(project: Project, node: Node, note: CommitNote) -> int:
    """Records of the inputs that were not read yet."""
    operation = node.operation
    assert operation is not None, "a source is asked itself"
    lag = 0
    for side in operation.triggers:
        part = operation.inputs[side]
        found = last_note(project.context(node.pipeline).paths(part).changelog)
        if found is None:
            continue
        # Of an input that was recomputed, nothing was read yet.
        known = found[1].incarnation == note.incarnations.get(side, 1)
        consumed = note.consumed.get(side, {}) if known else {}
        lag += sum(end - consumed.get(p, -1) for p, end in found[1].ends.items())
    return lag
