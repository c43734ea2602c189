"""Assets below a node's changelog that are about a topic: its delivery, and the audit of an application.

| check | of | holds where |
|---|---|---|
| ``all_rows_delivered`` | a delivery | the broker acknowledged as many rows as the changelog has |
| ``rows_read_back`` | a delivery | a reader of committed records finds its rows where they were written |
| ``nothing_lost`` | an audit | nothing of the application's output is missing, extra or stale, but by interleaving |
| ``output_is_readable`` | an audit | each record of the application's output can be decoded |

A node with nothing new whose topic is behind confirms its epoch, so that the topic's step runs (``node_assets.py``). An
audit runs with each new epoch of the node, and whenever it is asked for alone; its checks block nobody. An application,
or its topic, that is not there makes both warn, and fails no run. Held by ``tests/assets/sinks/test_sink_runs.py`` and
``tests/assets/shadow/test_shadow_runs.py``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

from rivermeet.assets.defs.failures import explain_failures
from rivermeet.assets.defs.keys import changelog_key, describe_asset, key_of
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.assets.shadow.marks import marks_of_run
from rivermeet.assets.shadow.words import lines, record
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.pipelines import Node, Shadow
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.sink import TopicSink

if TYPE_CHECKING:
    from rivermeet.assets.shadow.audit import Shadowed
    from rivermeet.assets.sinks.delivery import DeliveryOutcome

DELIVERED, READ_BACK = "all_rows_delivered", "rows_read_back"
LOST, READABLE = "nothing_lost", "output_is_readable"


def topic_key(sink: TopicSink) -> dg.AssetKey:
    """The topic of a sink as an asset."""
    return key_of(sink.node.pipeline, f"{sink.topic}_topic")


def shadow_key(shadow: Shadow) -> dg.AssetKey:
    """The audit of an application as an asset."""
    return key_of(shadow.node.pipeline, f"{shadow.topic}_shadow")


def _step_below(
    node: Node, key: dg.AssetKey, description: str, checks: Mapping[str, str]
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make a function the step of such an asset; its ``checks`` are named, each with what holds."""
    return dg.multi_asset(
        name=re.sub(r"\W", "_", f"{node.pipeline.name}__{key.path[-1]}"),
        specs=[
            dg.AssetSpec(
                key,
                deps=[changelog_key(node)],
                kinds={"kafka"},
                **describe_asset(node.pipeline),
                description=description,
            )
        ],
        check_specs=[dg.AssetCheckSpec(name, asset=key, description=holds) for name, holds in checks.items()],
    )


def sink_asset(sink: TopicSink) -> dg.AssetsDefinition:
    """The asset of one sink."""
    node, key = sink.node, topic_key(sink)
    checks = {
        DELIVERED: "The topic got as many rows as the changelog has.",
        READ_BACK: "Rows just delivered are read back, each once.",
    }

    @_step_below(node, key, f"The changelog of `{node.name}` as topic `{sink.topic}`, each row once.", checks)
    def deliver_topic(context: dg.AssetExecutionContext, rivermeet: ProjectResource) -> Iterator[Any]:
        from rivermeet.assets.sinks.delivery import deliver_rows

        with explain_failures(node):
            outcome = deliver_rows(rivermeet.project, sink)
        assert outcome is not None, "its node has an epoch, or this step was skipped"
        yield from _delivery_results(key, outcome)

    return deliver_topic


def _delivery_results(key: dg.AssetKey, outcome: "DeliveryOutcome") -> Iterator[Any]:
    position, rows = outcome.delivered.position, outcome.delivered.rows
    metadata = {
        "epoch": position.epoch,
        "rows_out": rows,
        "transactions": len(outcome.delivered.written),
        "dagster/row_count": position.records,
        "seconds": round(outcome.seconds, 3),
    }
    yield dg.MaterializeResult(key, metadata=metadata)
    yield dg.AssetCheckResult(
        asset_key=key,
        check_name=DELIVERED,
        passed=outcome.is_complete,
        description=f"{pluralize(position.records, 'row')} delivered; the changelog has {outcome.expected:,} "
        f"up to epoch {position.epoch}.",
        metadata={"delivered": position.records, "changelog": outcome.expected},
    )
    yield dg.AssetCheckResult(
        asset_key=key,
        check_name=READ_BACK,
        passed=outcome.is_read_back,
        description=f"{pluralize(rows, 'row')} delivered now, {outcome.read_back:,} read back.",
        metadata={"delivered": rows, "read_back": outcome.read_back},
    )


def shadow_asset(shadow: Shadow) -> dg.AssetsDefinition:
    """The asset of one audit."""
    node, key = shadow.node, shadow_key(shadow)
    checks = {
        LOST: "The application's output lacks nothing, and has no more.",
        READABLE: "Each record of the output can be decoded.",
    }

    @_step_below(node, key, f"What an application wrote to topic `{shadow.topic}`, against `{node.name}`.", checks)
    def audit_application(context: dg.AssetExecutionContext, rivermeet: ProjectResource) -> Iterator[Any]:
        from rivermeet.assets.shadow.audit import audit

        project = rivermeet.project
        try:
            outcome = audit(project, shadow, marks_of_run(project, shadow, context.run.run_id))
        except EpochRefusedError as refusal:
            # Whatever an application does, our run goes on.
            yield dg.MaterializeResult(key, metadata={"not_compared": str(refusal)})
            yield from (_warn(key, name, False, f"could not be compared: {refusal}") for name in checks)
            return
        record(project, outcome)
        said = f"{outcome.losses:,} lost or wrong, {outcome.explained:,} explained"
        project.say(f"  {node.name:<24} against topic {shadow.topic}: {said}; {outcome.seconds:.1f} s")
        yield from _audit_results(key, outcome)

    return audit_application


def _audit_results(key: dg.AssetKey, outcome: "Shadowed") -> Iterator[Any]:
    metadata = {
        "epoch": outcome.epoch,
        "compared": outcome.keys,
        "equal": outcome.equal,
        "came_otherwise": outcome.otherwise,
        "lost_or_wrong": outcome.losses,
        "explained": outcome.explained,
        "seconds": round(outcome.seconds, 3),
        "said": dg.MetadataValue.md("```text\n" + "\n".join(lines(outcome)) + "\n```"),
    }
    yield dg.MaterializeResult(key, metadata=metadata)
    ahead = f" The application has read {pluralize(outcome.ahead, 'offset')} that we have not." if outcome.ahead else ""
    causes = ", ".join(f"{one.cause.id} {one.count:,}" for one in outcome.differences if not one.cause.explained)
    lost = f"{outcome.losses:,} of {outcome.keys:,} are lost or wrong{': ' if causes else ''}{causes}; "
    yield _warn(key, LOST, not outcome.losses, f"{lost}{outcome.explained:,} are explained.{ahead}")
    bad = f"{outcome.undecodable:,} of {pluralize(outcome.records, 'record')} cannot be read as rows of the node."
    yield _warn(key, READABLE, not outcome.undecodable, f"{bad} {'; '.join(outcome.why)}".strip())


def _warn(key: dg.AssetKey, check: str, passed: bool, said: str) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(asset_key=key, check_name=check, passed=passed, severity=severity, description=said)
