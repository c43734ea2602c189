"""What keeps a topic from being read: each with what is gone, and the command that goes on."""

from __future__ import annotations

from rivermeet.infra.refusal import EpochRefusedError


class TopicRefusedError(EpochRefusedError):
    """A topic that cannot be read as it was planned."""

    remedy = "Do what the message says, and run again."


class RecordsGoneError(TopicRefusedError):
    """Records of a topic were removed before they were read."""

    remedy = (
        "Run `rivermeet accept-loss`, and keep the records of the topic for longer than the time between two epochs."
    )


class TopicRemadeError(TopicRefusedError):
    """The topic is another one than its records so far came from: recreated, or declared under another name."""

    remedy = "Run `rivermeet accept-loss`, or rebuild with `--lose-missing-files`."


class AnotherDatabaseError(TopicRefusedError):
    """Changes come from another log than those that were read: of another server, or of one that was put back."""

    remedy = "Run `rivermeet accept-loss`, or read a new topic with a new snapshot."


class TopicMissingError(TopicRefusedError):
    """There is no topic of that name."""

    remedy = "Make the topic, or take its source out of the pipeline."


class EndWentBackError(TopicRefusedError):
    """A topic ends before the records that were read of it: the broker has lost some."""

    remedy = "Rebuild from what the topic has, or run `rivermeet accept-loss`."


class TopicPositionLostError(TopicRefusedError):
    """The epoch log does not say up to where a topic was read."""

    remedy = "Put the epoch log back, or rebuild the source."


class NotCoPartitionedError(TopicRefusedError):
    """A join of two topics with other numbers of partitions."""

    remedy = "Give both topics the same number of partitions, or declare `partitions=N` at both sources."


class BrokerUnavailableError(TopicRefusedError):
    """The broker does not answer, or does not let us in; the plan stands, and the next run goes on with it."""

    remedy = "See to the broker, or to RIVERMEET_KAFKA, and run again."


class RegistryUnavailableError(TopicRefusedError):
    """The schema registry does not answer, or does not let us in; the plan stands, and the next run goes on with it."""

    remedy = "See to the registry, or to RIVERMEET_SCHEMA_REGISTRY, and run again."
