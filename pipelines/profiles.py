"""What each profile does, in words: the rules in which releases of Kafka Streams, and we, differ.

A rule is one question; profiles that answer it in the same words do not differ there. ``rivermeet explain`` shows
them for a declared join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rivermeet.pipelines.declare.join_rules import PROFILES
from rivermeet.pipelines.joins import (
    ForeignKeyJoin,
    Join,
    StreamGlobalJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
)


@dataclass(frozen=True)
class Rule:
    """One question about a family, answered by each profile that offers it.

    Attributes
    ----------
    asks
        The question.
    says
        Profile to its answer.
    of
        Whether a declared join can show the difference.
    """

    asks: str
    says: Mapping[str, str]
    of: Callable[[Join], bool] = lambda join: True


def _outer(join: Join) -> bool:
    return join.how != "inner"


def _cached(join: Join) -> bool:
    return getattr(join, "cache", None) is not None


def _versioned(join: Join) -> bool:
    return any(getattr(node, "history", None) is not None for node in join.inputs.values())


_FORGETS = "rows are found back to before + after + grace behind the newest record of their own side"
_SEGMENTS = "rows are found while their segment lives: pieces of {} of time, as far back as {}"

RULES: Mapping[type[Join], tuple[Rule, ...]] = {
    StreamStreamJoin: (
        Rule(
            "When does a record without a partner give its one-sided row?",
            {
                "3.1": "when stream time reaches timestamp + window + grace, never if it still finds a partner",
                "kafka-4": "when stream time passes timestamp + window + grace, or later: all rows still open at one "
                "look wait for the newest of them; a record that is out of order by more than its window at once, "
                "though it may still find a partner",
                "0.10.2": "at once, and its partners' rows follow",
                "0.10.0": "at once, and its partners' rows follow; in a left join a right record causes no row at all",
            },
            _outer,
        ),
        Rule(
            "What happens to a late record?",
            {
                "3.1": "dropped, counted and kept in the late table, when stream time has reached its close",
                "kafka-4": f"nothing is dropped as late: {_FORGETS}",
                "0.10.2": _SEGMENTS.format("half of before + after + grace, at least a minute", "that sum"),
                "0.10.0": _SEGMENTS.format("twelve hours", "a day and a half at most"),
            },
        ),
        Rule(
            "What does a record without a value do?",
            {
                "3.1": "it moves stream time, and joins nothing",
                "kafka-4": "it moves stream time, and joins nothing",
                "0.10.2": "nothing",
                "0.10.0": "it joins as a value would, and is not stored",
            },
        ),
        Rule(
            "What does a record without a key do?",
            {
                "3.1": "on an outer side it gives a one-sided row at once",
                "kafka-4": "on an outer side it gives a one-sided row at once",
                "0.10.2": "it is left out",
                "0.10.0": "it is left out",
            },
            _outer,
        ),
        Rule(
            "Which timestamp has a pair?",
            {
                "3.1": "the later of both",
                "kafka-4": "the later of both",
                "0.10.2": "the later of both",
                "0.10.0": "that of the record that came second",
            },
        ),
    ),
    StreamTableJoin: (
        Rule(
            "What does a stream record without a key do?",
            {
                "3.1": "it gives a one-sided row at once",
                "kafka-4": "it gives a one-sided row; with a grace period it stops the application",
                "0.10.2": "it is left out",
                "0.10.0": "it is left out",
            },
            _outer,
        ),
        Rule(
            "What does a stream record without a value do?",
            {
                "3.1": "nothing",
                "kafka-4": "nothing",
                "0.10.2": "nothing",
                "0.10.0": "it is joined as a value would be",
            },
        ),
    ),
    StreamGlobalJoin: (
        Rule(
            "What does a record do whose looked-up key is null?",
            {
                "3.1": "it gives a one-sided row",
                "kafka-4": "it gives a one-sided row",
                "0.10.2": "it is left out",
            },
            _outer,
        ),
    ),
    TableTableJoin: (
        Rule(
            "When is a tombstone sent?",
            {
                "3.1": "when a row ends, and only then",
                "kafka-4": "when a row ends, and again with every further delete while the other side has the key",
                "0.10.2": "when a row ends, and again with every further delete while the other side has the key",
                "0.10.0": "with every change that leaves no row, also where there was none",
            },
        ),
        Rule(
            "Which timestamp has a row?",
            {
                "3.1": "the later of the change and the other side's row",
                "kafka-4": "the later of the change and the other side's row",
                "0.10.2": "the later of the change and the other side's row",
                "0.10.0": "that of the change",
            },
        ),
        Rule(
            "What does the cache hold?",
            {
                "3.1": "the result: the net change of each key, so that the table is the same as without",
                "kafka-4": "each input, flushed left before right, so that an update of both sides joins twice; an "
                "inner join whose sides are both deleted in one commit keeps a stale row",
                "0.10.2": "each input, flushed left before right, so that an update of both sides joins twice; an "
                "inner join whose sides are both deleted in one commit keeps a stale row",
                "0.10.0": "the result: the net change of each key, so that the table is the same as without",
            },
            _cached,
        ),
    ),
    ForeignKeyJoin: (
        Rule(
            "What does a left row with a null foreign key do?",
            {
                "3.1": "it ends its old row: a tombstone, in a left join a row without partner",
                "kafka-4": "it ends its old row: a tombstone, in a left join a row without partner",
                "0.10.2": "the change is left out: the old row and its subscription stay as they are",
            },
        ),
        Rule(
            "What does an update with the same foreign key and no partner give?",
            {
                "3.1": "nothing, as there was no row",
                "kafka-4": "nothing, as there was no row",
                "0.10.2": "a tombstone each time",
            },
            lambda join: not _outer(join),
        ),
        Rule(
            "Which timestamp has the tombstone of a deleted left row?",
            {
                "3.1": "in a left join its own, in an inner join the later of it and its partner's",
                "kafka-4": "in a left join its own, in an inner join the later of it and its partner's",
                "0.10.2": "the later of it and its partner's",
            },
        ),
        Rule(
            "What does the cache hold?",
            {
                "3.1": "the result: the net change of each key, so that the table is the same as without",
                "kafka-4": "each input, flushed right before left; an answer to a left row that has changed since is "
                "dropped, and an inner join may so lose a tombstone",
                "0.10.2": "each input, flushed right before left; an answer to a left row that has changed since is "
                "dropped",
            },
            _cached,
        ),
    ),
}


def rules_of(join: Join) -> list[Rule]:
    """Rules in which a declared join's profiles differ."""
    return [rule for rule in RULES.get(type(join), ()) if rule.of(join)]


def differences(join: Join, one: str, other: str) -> list[tuple[str, str, str]]:
    """(question, answer of one profile, answer of the other) where they differ for this join."""
    return [
        (rule.asks, rule.says[one], rule.says[other])
        for rule in rules_of(join)
        if rule.says.get(one) != rule.says.get(other)
    ]


def refused(join: Join, profile: str) -> str | None:
    """Why a profile does not offer the join, or None."""
    offered = PROFILES[type(join)]
    if profile not in offered:
        return f"profile {profile!r} has no {join.family} join; it is offered by {', '.join(offered)}"
    if profile == "0.10.0" and join.family == "stream-table" and join.type == "inner":
        return "profile '0.10.0' has no inner stream-table join"
    if profile in ("0.10.0", "0.10.2") and _versioned(join):
        return f"profile {profile!r} has no versioned tables"
    return None
