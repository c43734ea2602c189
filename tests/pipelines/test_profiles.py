"""What `rivermeet explain` knows: an answer of every profile to every question, and none for show."""

from __future__ import annotations

import pytest

from rivermeet.pipelines import Files, JoinWindow, Pipeline
from rivermeet.pipelines.family import Family, Rule, compare_profiles, families

FILES = Files("none", "csv", {"id": "STRING", "n": "STRING", "at": "BIGINT"})
EVERY = [(family, rule) for family in families().values() for rule in family.differences]


@pytest.mark.parametrize(("family", "rule"), EVERY, ids=lambda x: getattr(x, "name", getattr(x, "asks", None)))
def test_every_profile_answers_every_question(family: Family, rule: Rule) -> None:
    assert set(rule.says) == set(family.declaration.profiles)
    assert len(set(rule.says.values())) > 1, "nothing differs"


def test_a_question_is_asked_only_where_it_matters() -> None:
    pipeline = Pipeline("shop")
    a, b = (pipeline.stream(name, FILES, key=["id"], value=["n"], timestamp="at") for name in "ab")
    window, select = JoinWindow(1, 1), {"x": "left.n"}
    inner = a.join(b, "inner", window=window, select=select).join_spec
    left = a.left_join(b, "left", window=window, select=select).join_spec
    assert inner is not None and left is not None
    asked = {asks for asks, *_ in compare_profiles(left, "3.1", "0.10.2")}
    assert "When does a record without a partner give its one-sided row?" in asked
    assert asked > {asks for asks, *_ in compare_profiles(inner, "3.1", "0.10.2")}
    assert compare_profiles(left, "3.1", "3.1") == []
