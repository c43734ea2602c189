"""table ⋈ table on a foreign key, as a registered family."""

from __future__ import annotations

from rivermeet.joins.equal_columns import match_pointers, own
from rivermeet.pipelines import ForeignKeyJoin
from rivermeet.pipelines.family import Family, Needed, Rule, is_cached, is_outer

DIFFERENCES = (
    Rule(
        "What does a left row with a null foreign key do?",
        {
            "3.1 kafka-4": "it ends its old row: a tombstone, in a left join a row without partner",
            "0.10.2": "the change is left out: the old row and its subscription stay as they are",
        },
    ),
    Rule(
        "What does an update with the same foreign key and no partner give?",
        {
            "3.1 kafka-4": "nothing, as there was no row",
            "0.10.2": "a tombstone each time",
        },
        lambda join: not is_outer(join),
    ),
    Rule(
        "Which timestamp has the tombstone of a deleted left row?",
        {
            "3.1 kafka-4": "in a left join its own, in an inner join the later of it and its partner's",
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
        is_cached,
    ),
)


def need_rows(join: ForeignKeyJoin) -> Needed:
    """Left rows whose key is that of a left record, or that point to a right one."""
    if join.semantics == "0.10.2":
        # There, subscriptions and not the rows decide what a right change meets.
        return {}
    return {"left": [own("left", join.left.key), match_pointers(join.left, join.foreign_key, "right")]}


FAMILY = Family(
    declaration=ForeignKeyJoin,
    operators={
        "3.1": "rivermeet.joins.foreign_key.profile_3_1",
        "0.10.2": "rivermeet.joins.foreign_key.profile_0_10_2",
        "kafka-4": "rivermeet.joins.foreign_key.profile_3_1",
    },
    reference="rivermeet.joins.foreign_key.reference",
    rules="rivermeet.expectations.rules.foreign_key",
    why="rivermeet.joins.foreign_key.why",
    shadow="rivermeet.joins.foreign_key.shadow",
    needed=need_rows,
    differences=DIFFERENCES,
)
