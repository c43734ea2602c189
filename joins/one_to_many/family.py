"""One-to-many, as a registered family."""

from __future__ import annotations

from rivermeet.joins.equal_columns import match_pointers, own
from rivermeet.pipelines import OneToManyJoin
from rivermeet.pipelines.family import Family, Needed


def need_rows(join: OneToManyJoin) -> Needed:
    """Right rows whose key is that of a right record, or that refer to a left one."""
    return {"right": [own("right", join.right.key), match_pointers(join.right, join.foreign_key, "left")]}


FAMILY = Family(
    declaration=OneToManyJoin,
    operators={"3.1": "rivermeet.joins.one_to_many.profile_3_1"},
    reference="rivermeet.joins.one_to_many.reference",
    rules="rivermeet.expectations.rules.one_to_many",
    why="rivermeet.joins.one_to_many.why",
    needed=need_rows,
)
