"""What keeps rows from being delivered: each with what mends it. What was delivered before stands."""

from __future__ import annotations

from rivermeet.infra.epochs.refusal import EpochRefusedError


class SinkRefusedError(EpochRefusedError):
    """Rows that cannot be delivered."""


class SinkFencedError(SinkRefusedError):
    """Another process has begun to write the same topic for the same node."""


class SinkRebuiltError(SinkRefusedError):
    """The node was rebuilt: its topic has rows of the changelog that was replaced."""


class SinkTopicRemadeError(SinkRefusedError):
    """The topic was made anew: it has none of the rows that were delivered."""


class SinkPositionLostError(SinkRefusedError):
    """The topic of positions does not say how far the topic is, and the epoch log says that something was delivered."""


class SinkTopicMissingError(SinkRefusedError):
    """There is no topic to write to."""


class DeliveryFailedError(SinkRefusedError):
    """The broker did not take the rows; the next run sends them again."""
