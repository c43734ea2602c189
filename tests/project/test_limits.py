"""Every threshold stands in one file, with its reason; no name stands for two numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from rivermeet.pipelines import limits
from tests.project.error_texts import trees

LIMITS = Path(str(limits.__file__)).resolve()


def constants(tree: ast.Module) -> Iterator[tuple[str, float]]:
    """Public names of a module that stand for numbers."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            value = number(node.value)
            if value is not None and name.isupper() and not name.startswith("_"):
                yield name, value


def number(node: ast.expr) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    parts = [number(part) for part in (node.left, node.right)] if isinstance(node, ast.BinOp) else [None]
    return None if None in parts else eval(ast.unparse(node))


def doubles(modules: list[ast.Module]) -> set[str]:
    values: dict[str, set[float]] = {}
    for tree in modules:
        for name, value in constants(tree):
            values.setdefault(name, set()).add(value)
    return {name for name, found in values.items() if len(found) > 1}


def test_no_name_stands_for_two_numbers() -> None:
    """A feed's `STEPS` are what it has."""
    assert doubles([*trees().values()]) == {"STEPS"}


def test_two_numbers_of_one_name_are_found() -> None:
    assert doubles([ast.parse("FEW = 5_000"), ast.parse("FEW = 2**10"), ast.parse("PORT = 1")]) == {"FEW"}


def test_every_limit_has_a_reason_and_is_read() -> None:
    tree = ast.parse(LIMITS.read_text("utf-8"))
    named = [name for name, _ in constants(tree)]
    said = [node for node in tree.body[1:] if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    assert len(named) == len(said) == len({*named})
    read = {
        node.attr
        for module in trees().values()
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "limits"
    }
    imported = {
        name.name
        for module in trees().values()
        for node in module.body
        if isinstance(node, ast.ImportFrom) and node.module == limits.__name__
        for name in node.names
    }
    assert read | imported == {*named}
