"""The family stream ⋈ stream: its modules and the rules of its profiles."""

from __future__ import annotations

from rivermeet.pipelines import StreamStreamJoin
from rivermeet.pipelines.family import Family, Rule, is_outer

_FORGETS = "rows are found back to before + after + grace behind the newest record of their own side"
_SEGMENTS = "rows are found while their segment lives: pieces of {} of time, as far back as {}"

DIFFERENCES = (
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
        is_outer,
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
            "3.1 kafka-4": "it moves stream time, and joins nothing",
            "0.10.2": "nothing",
            "0.10.0": "it joins as a value would, and is not stored",
        },
    ),
    Rule(
        "What does a record without a key do?",
        {
            "3.1 kafka-4": "on an outer side it gives a one-sided row at once",
            "0.10.2 0.10.0": "it is left out",
        },
        is_outer,
    ),
    Rule(
        "Which timestamp has a pair?",
        {
            "3.1 kafka-4 0.10.2": "the later of both",
            "0.10.0": "that of the record that came second",
        },
    ),
)

FAMILY = Family(
    declaration=StreamStreamJoin,
    operators={
        "3.1": "rivermeet.joins.stream_stream.profile_3_1",
        "0.10.2": "rivermeet.joins.stream_stream.profile_0_10_2",
        "0.10.0": "rivermeet.joins.stream_stream.profile_0_10_0",
        "kafka-4": "rivermeet.joins.stream_stream.profile_kafka_4",
    },
    reference="rivermeet.joins.stream_stream.reference",
    rules="rivermeet.expectations.rules.stream_stream",
    why="rivermeet.joins.stream_stream.why",
    shadow="rivermeet.joins.stream_stream.shadow",
    differences=DIFFERENCES,
)
