"""stream ⋈ global table, and the view that two global tables are, registered."""

from __future__ import annotations

from rivermeet.pipelines import GlobalGlobalJoin, StreamGlobalJoin
from rivermeet.pipelines.family import Family, Rule, is_outer

DIFFERENCES = (
    Rule(
        "What does a record do whose looked-up key is null?",
        {
            "3.1 kafka-4": "it gives a one-sided row",
            "0.10.2": "it is left out",
        },
        is_outer,
    ),
)

FAMILY = Family(
    declaration=StreamGlobalJoin,
    operators=dict.fromkeys(("3.1", "0.10.2", "kafka-4"), "rivermeet.joins.stream_global.profile_3_1"),
    reference="rivermeet.joins.stream_global.reference",
    rules="rivermeet.expectations.rules.stream_global",
    why="rivermeet.joins.stream_global.why",
    # Which version of a row a record has seen is found as of a table.
    shadow="rivermeet.joins.stream_table.shadow",
    differences=DIFFERENCES,
)
VIEW = Family(declaration=GlobalGlobalJoin, operators={})
"""Nothing of it is stored: ``joins/stream_global/global_view.py`` resolves it where it is read."""
