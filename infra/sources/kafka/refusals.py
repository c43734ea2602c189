"""What keeps a topic from being read: each with what is gone, and the command that goes on."""

from __future__ import annotations

from rivermeet.infra.epochs.refusal import EpochRefusedError


class TopicRefusedError(EpochRefusedError):
    """A topic that cannot be read as it was planned."""


class RecordsGoneError(TopicRefusedError):
    """Records of a topic were removed before they were read."""


class TopicRemadeError(TopicRefusedError):
    """The topic is another one than its records so far came from: made anew, or declared under another name."""


class AnotherDatabaseError(TopicRefusedError):
    """Changes come from another log than those that were read: of another server, or of one that was put back."""


class TopicMissingError(TopicRefusedError):
    """There is no topic of that name."""


class EndWentBackError(TopicRefusedError):
    """A topic ends before the records that were read of it: the broker has lost some."""


class PositionLostError(TopicRefusedError):
    """The epoch log does not say up to where a topic was read."""


class NotCoPartitionedError(TopicRefusedError):
    """A join of two topics with other numbers of partitions."""


class BrokerUnavailableError(TopicRefusedError):
    """The broker does not answer, or does not let us in; the plan stands, and the next run goes on with it."""


class RegistryUnavailableError(TopicRefusedError):
    """The schema registry does not answer, or does not let us in; the plan stands, and the next run goes on with it."""
