"""A failed step shows the sentence of a `RivermeetError`, also to another process; a bug keeps its traceback."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster_shared.serdes import deserialize_value, serialize_value

from rivermeet.assets.defs.failures import explain_failures, sentence_of
from rivermeet.infra.engine.watch import EngineLostError
from rivermeet.infra.kafka.refusals import BrokerUnavailableError, TopicMissingError
from rivermeet.pipelines import Files, Pipeline
from rivermeet.pipelines.errors import RivermeetError

_FILES = Files("*.csv", "csv", {"id": "STRING", "n": "STRING", "at": "BIGINT"})
clicks = Pipeline("shop").stream("clicks", _FILES, key=["id"], timestamp="at")


def failed(raised: Exception) -> dg.DagsterEvent:
    """The event of a step that raised it, as another process reads it."""

    @dg.asset
    def step() -> None:
        with explain_failures(clicks):
            raise raised

    (event,) = dg.materialize([step], raise_on_error=False).get_step_failure_events()
    return deserialize_value(serialize_value(event), dg.DagsterEvent)


def test_an_error_is_its_sentence_with_code_and_fields() -> None:
    event = failed(TopicMissingError("there is no topic 'orders': make it", topic="orders"))
    assert sentence_of(event) == "there is no topic 'orders': make it"
    data = event.step_failure_data.user_failure_data
    assert data is not None
    assert {name: value.value for name, value in data.metadata.items()} == {
        "code": "topic-missing",
        "topic": "orders",
        "pipeline": "shop",
        "node": "clicks",
    }


def test_a_bug_keeps_class_message_and_traceback() -> None:
    event = failed(ValueError("half a row"))
    assert sentence_of(event) == "ValueError: half a row"
    error = event.step_failure_data.error
    assert error is not None and error.cause is not None
    assert any("raise raised" in line for line in error.cause.stack)


@pytest.mark.parametrize(
    ("raised", "tries"),
    [
        (BrokerUnavailableError("no answer"), 3),
        (EngineLostError("it has ended"), 3),
        (TopicMissingError("there is no topic 'orders': make it"), 1),
    ],
)
def test_a_retry_policy_is_followed_for_what_may_pass(raised: RivermeetError, tries: int) -> None:
    made: list[str] = []

    @dg.asset(retry_policy=dg.RetryPolicy(max_retries=2))
    def step() -> None:
        made.append("try")
        with explain_failures(clicks):
            raise raised

    assert not dg.materialize([step], raise_on_error=False).success
    assert len(made) == tries
