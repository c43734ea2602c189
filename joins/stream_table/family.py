"""stream ⋈ table, as a registered family."""

from __future__ import annotations

from rivermeet.joins.equal_columns import columns, key_column, own
from rivermeet.pipelines import StreamTableJoin
from rivermeet.pipelines.family import Equal, Family, Needed, Rule, is_outer

DIFFERENCES = (
    Rule(
        "What does a stream record without a key do?",
        {
            "3.1": "it gives a one-sided row at once",
            "kafka-4": "it gives a one-sided row; with a grace period it stops the application",
            "0.10.2 0.10.0": "it is left out",
        },
        is_outer,
    ),
    Rule(
        "What does a stream record without a value do?",
        {
            "3.1 kafka-4 0.10.2": "nothing",
            "0.10.0": "it is joined as a value would be",
        },
    ),
)


def need_rows(join: StreamTableJoin) -> Needed:
    """Rows of the table whose key a stream record looks up, or that change."""
    looked_up: Equal = {key_column(found): ("left", column) for column, found in columns(join.left, join.key).items()}
    return {"right": [own("right", join.right.key), looked_up]}


FAMILY = Family(
    declaration=StreamTableJoin,
    operators={
        "3.1": "rivermeet.joins.stream_table.profile_3_1",
        "0.10.2": "rivermeet.joins.stream_table.profile_0_10_2",
        "0.10.0": "rivermeet.joins.stream_table.profile_0_10_0",
        "kafka-4": "rivermeet.joins.stream_table.profile_3_1",
    },
    reference="rivermeet.joins.stream_table.reference",
    rules="rivermeet.expectations.rules.stream_table",
    why="rivermeet.joins.stream_table.why",
    shadow="rivermeet.joins.stream_table.shadow",
    needed=need_rows,
    differences=DIFFERENCES,
)
