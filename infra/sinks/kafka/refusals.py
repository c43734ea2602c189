"""Errors about rows that cannot be delivered, each with its remedy. Rows delivered before stay."""

from __future__ import annotations

from rivermeet.infra.refusal import EpochRefusedError


class SinkRefusedError(EpochRefusedError):
    """Rows that cannot be delivered."""

    remedy = "Do what the message says, and run again; delivered rows stay."


class SinkFencedError(SinkRefusedError):
    """Another process has begun to write the same topic for the same node."""

    remedy = "Stop one of the two processes."


class SinkRebuiltError(SinkRefusedError):
    """The node was rebuilt: its topic has rows of the changelog that was replaced."""

    remedy = "Declare another topic for the rows of the rebuilt node."


class SinkTopicRemadeError(SinkRefusedError):
    """The topic was recreated: it has none of the delivered rows."""

    remedy = "Delete the topic of positions too, or declare another topic."


class SinkPositionLostError(SinkRefusedError):
    """The topic of positions has no position, although the epoch log has a delivery."""

    remedy = "Declare another topic, or delete both."


class SinkTopicMissingError(SinkRefusedError):
    """There is no topic to write to."""

    remedy = "Make the topic, or declare `partitions=N`."


class DeliveryFailedError(SinkRefusedError):
    """The broker did not accept the rows; the next run sends them again."""

    is_transient = True
    remedy = "Check the broker, and run again."
