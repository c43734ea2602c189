"""What a run of a pipeline would do, stage by stage; nothing is written and no epoch is logged.

A node is planned on what is committed now. Where something that it is made of has news, the run itself plans it later,
on more records than are shown here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rivermeet.assets.epoch.materialise import has_news
from rivermeet.assets.epoch.operator_step import step_of
from rivermeet.assets.epoch.run import stages_of
from rivermeet.assets.project import Project
from rivermeet.assets.sinks.delivery import sink_lag
from rivermeet.infra.epochs.plan import InputSlice
from rivermeet.infra.epochs.stages.plan import Plan
from rivermeet.pipelines import Node, Pipeline
from rivermeet.pipelines.errors import RivermeetError
from rivermeet.pipelines.plural import pluralize


def explain(project: Project, pipeline: Pipeline, selected: Sequence[str] = ()) -> Iterator[str]:
    """Lines about each node and the stages of its next epoch."""
    for node in pipeline.stored:
        if not selected or node.name in selected:
            yield node.name
            yield from (f"  {line}" for line in _node(project, node, selected))
            for sink in pipeline.sinks_of(node):
                lag = sink_lag(project, sink)
                delivered = f"{sink.topic}, delivered up to epoch {lag.epoch}"
                yield f"  topic    {delivered}; due: {lag.due}, and what this run commits"
            yield from (
                f"  shadow   compared with topic {shadow.topic}, if an epoch is committed"
                for shadow in pipeline.shadows
                if shadow.node is node
            )


def _node(project: Project, node: Node, selected: Sequence[str]) -> Iterator[str]:
    context, step = project.context(node.pipeline), step_of(project, node)
    try:
        planned = Plan(step).look(context)
    except RivermeetError as refusal:
        yield f"refused  {refusal}"
        return
    inputs = node.operation.stored_inputs.values() if node.operation is not None else ()
    news = [part.name for part in dict.fromkeys(inputs) if (not selected or part.name in selected)]
    waiting = [part for part in dict.fromkeys(inputs) if part.name in news and has_news(project, part)]
    later = f"after {', '.join(part.name for part in waiting)}, whose new records come on top" if waiting else ""
    for plan, why in planned.aside:
        yield f"aside    epoch {plan.epoch}: {why}"
    if planned.plan is None:
        yield f"plan     {later or 'nothing new'}"
        return
    again = ", as a run that ended has planned it" if planned.logged else ""
    yield f"plan     epoch {planned.plan.epoch}{again}{f'; {later}' if later else ''}"
    for side, part in planned.plan.inputs.items():
        yield f"         {side}: {_range(part)}"
    if planned.plan.reads is not None:
        yield from (f"         {part}" for part in planned.plan.reads.parts())
    for stage in stages_of(step, planned.plan, planned):
        yield f"{stage.name:<8} {stage.explain(context)}"


def _range(part: InputSlice) -> str:
    new = {p: (part.after.get(p, -1) + 1, end) for p, end in sorted(part.upto.items()) if end > part.after.get(p, -1)}
    offsets = ", ".join(f"{p}: {first}-{last}" for p, (first, last) in new.items())
    table = f", table at version {part.table_version}" if part.table_version is not None else ""
    return (
        f"{pluralize(part.records, 'record')}, changelog at version {part.version}{table}; offsets {offsets or 'none'}"
    )
