"""Errors about a topic that cannot be read or written: each names what is missing, and the command that continues."""

from __future__ import annotations

from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.pipelines.errors import RivermeetError


class TopicRefusedError(EpochRefusedError):
    """A topic that cannot be read as it was planned."""

    remedy = "Do what the message says, and run again."


class RecordsGoneError(TopicRefusedError):
    """Records of a topic were removed before they were read."""

    remedy = (
        "Run `rivermeet accept-loss`, and keep the records of the topic for longer than the time between two epochs."
    )


class TopicRemadeError(TopicRefusedError):
    """The topic differs from the one that the earlier records came from: it was recreated, or has another name."""

    remedy = "Run `rivermeet accept-loss`, or rebuild with `--lose-missing-files`."


class TopicMissingError(TopicRefusedError):
    """There is no topic of that name."""

    remedy = "Make the topic, or take its source out of the pipeline."


class EndWentBackError(TopicRefusedError):
    """A topic ends before records that were already read: the broker has lost some."""

    remedy = "Rebuild from what the topic has, or run `rivermeet accept-loss`."


class TopicPositionLostError(TopicRefusedError):
    """The epoch log does not say up to which offsets a topic was read."""

    remedy = "Put the epoch log back, or rebuild the source."


class NotCoPartitionedError(TopicRefusedError):
    """A join of two topics with different numbers of partitions."""

    remedy = "Give both topics the same number of partitions, or declare `partitions=N` at both sources."


class BrokerUnavailableError(TopicRefusedError):
    """The broker does not answer, or refuses the login; the next run continues with the plan."""

    is_transient = True
    remedy = "Check the broker and RIVERMEET_KAFKA, and run again."


class RegistryUnavailableError(TopicRefusedError):
    """The schema registry does not answer, or refuses the login; the next run continues with the plan."""

    is_transient = True
    remedy = "Check the registry and RIVERMEET_SCHEMA_REGISTRY, and run again."


class SchemaRefusedError(TopicRefusedError):
    """The registry refuses the schema of the values to be written."""

    remedy = "Write another topic, or change the rule of compatibility of the subject."


class TypeWithoutFormError(RivermeetError):
    """A column with a name or type that a format cannot represent; the message names it."""

    remedy = "Leave the column out, cast it, or write JSON."
