"""A rule of the user's own is checked when it is declared; a message names pipeline, node, rule and choices."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from rivermeet.pipelines import Check, DeclarationError, Files, JoinWindow, Node, Pipeline

SOUND: dict[str, Any] = {"id": "sound", "sentence": "It holds.", "violations": "SELECT * FROM {rows}"}


def shop() -> tuple[Pipeline, dict[str, Node]]:
    pipeline = Pipeline("shop")
    files = Files("none/*.csv", "csv", {"id": "INT", "n": "STRING", "at": "BIGINT"})
    how: dict[str, Any] = {"key": ["id"], "value": ["n"], "timestamp": "at"}
    clicks, views = pipeline.stream("clicks", files, **how), pipeline.stream("views", files, **how)
    one, other = pipeline.global_table("one", files, **how), pipeline.global_table("other", files, **how)
    select = {"a": "left.n", "b": "right.n"}
    clicks.join(views, "seen", window=JoinWindow(1, 1), select=select)
    clicks.join(one, "named", key="id", select=select)
    one.join(other, "view", key="id", select=select)
    return pipeline, {node.name: node for node in pipeline.nodes}


def test_a_rule_is_kept_with_its_node() -> None:
    pipeline, nodes = shop()
    rule = pipeline.check(nodes["seen"], **SOUND)
    strict = pipeline.check(nodes["seen"], **SOUND | {"id": "strict"}, severity="critical", blocking=True)
    assert rule == Check("seen", "sound", "It holds.", "SELECT * FROM {rows}", "warning", False)
    assert pipeline.checks_of(nodes["seen"]) == (rule, strict)
    assert pipeline.checks_of(nodes["named"]) == ()
    with pytest.raises(FrozenInstanceError):
        rule.id = "other"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("violations", "committed", "of_table"),
    [
        ("SELECT * FROM {rows}", False, False),
        ("SELECT '{{}}' FROM {rows} r LEFT JOIN {right} USING (key)", False, False),
        ("SELECT * FROM {changelog}", True, False),
        ("SELECT * FROM {table} t JOIN {changelog} c ON c.key.id = t.id", True, True),
    ],
)
def test_what_it_names_says_when_it_is_judged(violations: str, committed: bool, of_table: bool) -> None:
    pipeline, nodes = shop()
    node = nodes["one"] if of_table else nodes["seen"]
    rule = pipeline.check(node, "rule", "It holds.", violations)
    assert (rule.on_committed, rule.of_table) == (committed, of_table)


@pytest.mark.parametrize(
    ("node", "options", "says"),
    [
        ("seen", {"id": "two words"}, "check 'two words': a name is letters, digits and _, a letter first"),
        ("seen", {"sentence": " "}, "say in a sentence what holds"),
        ("seen", {"severity": "fatal"}, "severity='fatal' is not one of 'critical', 'warning', 'info'"),
        ("seen", {"violations": "SELECT * FROM {row}"}, "names 'row', and there are 'rows', 'changelog', 'new_left', "),
        ("seen", {"violations": "SELECT * FROM {table}"}, "names 'table', and there are 'rows', 'changelog', "),
        ("named", {"violations": "SELECT * FROM {rows}, {left}"}, "'new_left', 'new_right', 'right'; double other"),
        ("seen", {"violations": "SELECT '{' FROM {rows}"}, "has a brace that is no relation"),
        ("seen", {"violations": "SELECT * FROM {rows:SELECT key FROM {rows}}"}, "'rows' is followed by 'SELECT key "),
        ("seen", {"violations": "SELECT * FROM trips"}, "names none of 'rows', 'changelog' to judge"),
        ("seen", {"violations": "SELECT * FROM {rows}, {changelog}"}, "rows are of one epoch, the others are"),
        ("seen", {"violations": "SELECT * FROM {changelog}", "blocking": True}, "is judged after the commit"),
        ("view", {}, "a view is resolved when it is read and has no rows of its own"),
    ],
)
def test_what_cannot_be_judged_is_refused(node: str, options: dict[str, Any], says: str) -> None:
    pipeline, nodes = shop()
    with pytest.raises(DeclarationError) as refused:
        pipeline.check(nodes[node], **SOUND | options)
    assert str(refused.value).startswith(f"pipeline 'shop', node '{node}': check ")
    assert says in str(refused.value)
    assert not pipeline.checks_of(nodes[node])


def test_a_rule_is_declared_once_and_about_a_node_of_the_pipeline() -> None:
    pipeline, nodes = shop()
    pipeline.check(nodes["seen"], **SOUND)
    with pytest.raises(DeclarationError, match="check 'sound' is declared twice; there are 'sound'"):
        pipeline.check(nodes["seen"], **SOUND)
    pipeline.check(nodes["named"], **SOUND)
    _, others = shop()
    with pytest.raises(DeclarationError, match="'seen' is no node of this pipeline; there are 'clicks', "):
        pipeline.check(others["seen"], **SOUND)
