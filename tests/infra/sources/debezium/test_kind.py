"""Which topics are of Debezium's kind, and that plans of before it was one are its plans."""

from __future__ import annotations

import pytest

from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.source_kinds import DEBEZIUM, KAFKA, kind_of
from rivermeet.infra.sources.kind import SourceKind
from rivermeet.pipelines import JSON, Debezium, Kafka, Pipeline
from tests.infra.epochs.test_plans import TOPIC


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        (Kafka("t", key=Debezium({"id": "INT"}), value=Debezium({"n": "INT"})), DEBEZIUM),
        (Kafka("t", value=Debezium({"n": "INT"})), DEBEZIUM),
        (Kafka("t", key=Debezium({"id": "INT"}), value=JSON({"n": "INT"})), DEBEZIUM),
        (Kafka("t", key=JSON({"id": "INT"}), value=JSON({"n": "INT"})), KAFKA),
    ],
)
def test_a_topic_of_envelopes_or_of_their_keys_is_of_the_kind(topic: Kafka, kind: SourceKind) -> None:
    assert kind_of(Pipeline("shop").stream("orders", topic, key=["n"], value={"m": "n"}, partitions=1)) is kind


@pytest.mark.parametrize("kind", [DEBEZIUM, KAFKA])
def test_a_plan_of_a_topic_is_read_by_both(kind: SourceKind) -> None:
    """Its ``anew`` too, which only envelopes have: a home does not know that they became a kind of their own."""
    written = EpochPlan.model_validate_json(TOPIC)
    assert written.reads is not None and type(written.reads) is kind.ranges
    assert EpochPlan.model_validate_json(written.model_dump_json()) == written
