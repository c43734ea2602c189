"""A family is one registered value: its declaration's class is tested for in its own room alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rivermeet.pipelines.family import GROUP, OURS, families, find_family
from rivermeet.pipelines.joins import Join, Operation
from rivermeet.pipelines.operations import OneInput

PROJECT = Path(__file__).parents[2]
PACKAGES = ("pipelines", "records", "joins", "expectations", "infra", "assets", "benchmarks")
ROOMS = {
    find_family(name).declaration.__name__: EntryPoint(name, OURS[name], GROUP).module.split(".")[-2] for name in OURS
}
"""Class of a declaration to the folder of its family."""
CLASSES = {*ROOMS, Join.__name__, OneInput.__name__}


def asking(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and class of each place that asks which operation something is."""
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked = [*node.args[1:]]
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            asked = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        for part in asked:
            for name in ast.walk(part):
                if isinstance(name, ast.Name | ast.Attribute):
                    found = name.id if isinstance(name, ast.Name) else name.attr
                    by_name = isinstance(node, ast.Compare) and isinstance(name, ast.Attribute) and found == "family"
                    if found in CLASSES or by_name:
                        yield getattr(node, "lineno", 0), found


def faults(path: str, code: str) -> list[str]:
    """Places of a file that test for a class, or a family's name, that is not of its own room."""
    parts = Path(path).with_suffix("").parts
    return [
        f"{path}:{line} tests for {found}: ask the operation (pipelines/joins.py), or its family (pipelines/family.py)"
        for line, found in asking(ast.parse(code))
        if ROOMS.get(found) not in parts
    ]


def test_nobody_tests_for_the_class_of_an_operation() -> None:
    files = [file for package in PACKAGES for file in sorted((PROJECT / package).rglob("*.py"))]
    found = [fault for file in files for fault in faults(str(file.relative_to(PROJECT)), file.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "code", "count"),
    [
        ("infra/epochs/plan.py", "isinstance(made, ForeignKeyJoin)", 1),
        ("infra/epochs/plan.py", "issubclass(made, Join)", 1),
        ("assets/why/walk.py", "isinstance(made, pipelines.Filter | Merge)", 2),
        ("assets/why/walk.py", "made is OneToManyJoin", 1),
        ("assets/why/walk.py", "made.family == 'merge'", 1),
        ("joins/operator.py", "{StreamStreamJoin: 'rivermeet.joins.stream_stream'}", 1),
        ("joins/operator.py", "match made:\n  case TableAggregate(): pass", 1),
        ("joins/stateless/why.py", "isinstance(made, Filter)", 0),
        ("expectations/rules/aggregates.py", "isinstance(made, TableAggregate)", 0),
        ("expectations/rules/aggregates.py", "isinstance(made, Filter)", 1),
        ("joins/order.py", "isinstance(made, Operation)", 0),
    ],
)
def test_a_test_for_a_class_is_found(path: str, code: str, count: int) -> None:
    assert len(faults(path, code)) == count


def test_every_operation_has_a_family_and_each_profile_an_operator() -> None:
    assert {made.declaration for made in families().values()} == {*concrete(Operation)}
    for name, family in families().items():
        assert family.name == name
        # A view is resolved where it is read: no epoch computes it.
        assert tuple(family.operators) == (family.declaration.profiles if name != "global-global" else ())


def concrete(kind: type[Operation]) -> Iterator[type[Operation]]:
    """Classes of ours that operations are made of."""
    for one in kind.__subclasses__():
        if one not in (Join, OneInput) and one.__module__.startswith(Operation.__module__.rpartition(".")[0]):
            yield one
        yield from concrete(one)


@pytest.mark.parametrize("name", [name for name in OURS if find_family(name).operators])
def test_files_have_the_same_names_in_every_room(name: str) -> None:
    family, room = find_family(name), ROOMS[find_family(name).declaration.__name__]
    assert {module.split(".")[-2] for module in (*family.operators.values(), family.why)} == {room}
    assert family.why.endswith(f"{room}.why")
    assert family.rules is None or family.rules.endswith(f"rivermeet.expectations.rules.{room}")


def test_what_is_not_registered_is_refused_with_the_way_to_do_it() -> None:
    says = r"no family 'sideways' is registered.*call rivermeet\.pipelines\.family\.register"
    with pytest.raises(LookupError, match=says):
        find_family("sideways")
