"""A topic as an asset below its node's changelog, with checks of what was delivered.

| check | holds where |
|---|---|
| ``all_rows_delivered`` | the broker acknowledged as many rows as the changelog has |
| ``rows_read_back`` | a reader of committed records finds the rows of this delivery where they were written |

A node with nothing new whose topic is behind confirms its epoch, so that the topic's step runs (``node_assets.py``).
Held by ``tests/assets/sinks/test_sink_runs.py``.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from rivermeet.assets.defs.failures import explain_failures
from rivermeet.assets.defs.keys import key_of, step_below
from rivermeet.assets.defs.resource import ProjectResource
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.sink import TopicSink

if TYPE_CHECKING:
    from rivermeet.assets.sinks.delivery import DeliveryOutcome

DELIVERED, READ_BACK = "all_rows_delivered", "rows_read_back"


def topic_key(sink: TopicSink) -> dg.AssetKey:
    """The topic as an asset."""
    return key_of(sink.node.pipeline, f"{sink.topic}_topic")


def sink_asset(sink: TopicSink) -> dg.AssetsDefinition:
    """The asset of one sink."""
    node, key = sink.node, topic_key(sink)
    checks = {
        DELIVERED: "The topic got as many rows as the changelog has.",
        READ_BACK: "Rows just delivered are read back, each once.",
    }

    @step_below(node, key, f"The changelog of `{node.name}` as topic `{sink.topic}`, each row once.", checks)
    def deliver_topic(context: dg.AssetExecutionContext, rivermeet: ProjectResource) -> Iterator[Any]:
        from rivermeet.assets.sinks.delivery import deliver_rows

        with explain_failures(node):
            outcome = deliver_rows(rivermeet.project, sink)
        assert outcome is not None, "its node has an epoch, or this step was skipped"
        yield dg.MaterializeResult(key, metadata=_metadata(outcome))
        yield from _checks(sink, outcome)

    return deliver_topic


def _metadata(outcome: "DeliveryOutcome") -> dict[str, Any]:
    position = outcome.delivered.position
    return {
        "epoch": position.epoch,
        "rows_out": outcome.delivered.rows,
        "transactions": len(outcome.delivered.written),
        "dagster/row_count": position.records,
        "seconds": round(outcome.seconds, 3),
    }


def _checks(sink: TopicSink, outcome: "DeliveryOutcome") -> list[dg.AssetCheckResult]:
    position, rows = outcome.delivered.position, outcome.delivered.rows
    return [
        dg.AssetCheckResult(
            asset_key=topic_key(sink),
            check_name=DELIVERED,
            passed=outcome.is_complete,
            description=f"{pluralize(position.records, 'row')} delivered; the changelog has {outcome.expected:,} "
            f"up to epoch {position.epoch}.",
            metadata={"delivered": position.records, "changelog": outcome.expected},
        ),
        dg.AssetCheckResult(
            asset_key=topic_key(sink),
            check_name=READ_BACK,
            passed=outcome.is_read_back,
            description=f"{pluralize(rows, 'row')} delivered now, {outcome.read_back:,} read back.",
            metadata={"delivered": rows, "read_back": outcome.read_back},
        ),
    ]
