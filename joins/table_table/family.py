"""table ⋈ table on the key, as a registered family."""

from __future__ import annotations

from rivermeet.joins.equal_columns import key_column, own
from rivermeet.pipelines import TableTableJoin
from rivermeet.pipelines.family import Family, Needed, Rule, is_cached

DIFFERENCES = (
    Rule(
        "When is a tombstone sent?",
        {
            "3.1": "when a row ends, and only then",
            "kafka-4 0.10.2": "when a row ends, and again with every further delete while the other side has the key",
            "0.10.0": "with every change that leaves no row, also where there was none",
        },
    ),
    Rule(
        "Which timestamp has a row?",
        {
            "3.1 kafka-4 0.10.2": "the later of the change and the other side's row",
            "0.10.0": "that of the change",
        },
    ),
    Rule(
        "What does the cache hold?",
        {
            "3.1 0.10.0": "the result: the net change of each key, so that the table is the same as without",
            "kafka-4 0.10.2": "each input, flushed left before right, so that an update of both sides joins twice; an "
            "inner join whose sides are both deleted in one commit keeps a stale row",
        },
        is_cached,
    ),
)


def need_rows(join: TableTableJoin) -> Needed:
    """Rows of either table whose key is that of a record of either side."""
    shifted = {"window_start", "window_end"} if join.window_map else set[str]()
    pairs = [pair for pair in zip(join.left.key, join.right.key, strict=True) if pair[1] not in shifted]
    return {
        "left": [
            own("left", join.left.key),
            {key_column(mine): ("right", key_column(theirs)) for mine, theirs in pairs},
        ],
        "right": [
            own("right", join.right.key),
            {key_column(theirs): ("left", key_column(mine)) for mine, theirs in pairs},
        ],
    }


FAMILY = Family(
    declaration=TableTableJoin,
    operators={
        "3.1": "rivermeet.joins.table_table.profile_3_1",
        "0.10.2": "rivermeet.joins.table_table.profile_kafka_4",
        "0.10.0": "rivermeet.joins.table_table.profile_0_10_0",
        "kafka-4": "rivermeet.joins.table_table.profile_kafka_4",
    },
    reference="rivermeet.joins.table_table.reference",
    rules="rivermeet.expectations.rules.table_table",
    why="rivermeet.joins.table_table.why",
    shadow="rivermeet.joins.table_table.shadow",
    needed=need_rows,
    differences=DIFFERENCES,
)
