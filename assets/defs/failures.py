"""What a user can act on, as Dagster shows it: a `dagster.Failure` with the sentence, the code and the fields.

A failed step reaches the terminal, the run's page and other processes as an event, in which an error is text. That of
a `dagster.Failure` has a description and metadata of its own; of any other error Dagster keeps class, message and
traceback, and so a bug keeps them.

    TopicMissingError("there is no topic 'orders': make it, or …")      description: the sentence
                                                                        metadata: code topic-missing, and its fields

We declare no retry policy: at a terminal it would only delay the sentence. That of a user's job, such as
``define_asset_job(…, op_retry_policy=RetryPolicy(3, delay=60))``, is followed for what may pass by itself, as a broker
or an engine that is gone, and not for what stays wrong until somebody acts. Held by
``tests/assets/defs/test_failures.py``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from rivermeet.pipelines import Node
from rivermeet.pipelines.errors import RivermeetError


@contextmanager
def explain_failures(node: Node) -> Iterator[None]:
    """Raise a `RivermeetError` of a block that runs for a node as a `dagster.Failure`."""
    try:
        yield
    except RivermeetError as error:
        error.within(pipeline=node.pipeline.name, node=node.name)
        metadata = {name: str(value) for name, value in error.fields.items()} | {"code": error.code}
        raise dg.Failure(str(error), metadata=metadata, allow_retries=error.is_transient) from error


def sentence_of(event: dg.DagsterEvent) -> str:
    """What the terminal shows of a failed step: a failure's sentence, or class and message of a bug."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    error = data.error.cause or data.error if data.error is not None else None
    return error.message.strip().partition("\n\nJVM stacktrace")[0] if error is not None else "see the run"
