"""A node's declaration as flat text: one line per declared value, with the path to it.

    JoinWindow(before=1, after=2) under "window"     window.before 1, window.after 2, window.grace 0
    semantics="3.1"                                  nothing: it is the default
    {"n": expr("x + 1", "INT")} under "value"        value.n INT, value.n.sql x + 1
    a node under "left"                              left orders
    lambda left, right: left.n - right.n             function 3f0c… of Python 3.12

An option with its default is not written, so new options of a new release change no declaration. A function is
represented by its bytecode and the values that it closes over, because the columns that it returns have no stable text.

Held by ``tests/infra/epochs/test_declaration.py``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any

from rivermeet.infra.delta.widening import normal
from rivermeet.pipelines import Expr, Node

UNKNOWN = "?"
"""Type of a column that only Spark could infer."""
_OWN = ("pipeline", "name", "key", "value", "partitions", "origin", "description", "fold")
_REFERENCE = re.compile(r"(?:(left|right)\.)?(?:(\w+)|`((?:[^`]|``)+)`)")


def describe_declaration(node: Node) -> dict[str, str]:
    """Everything that a node's rows depend on, as flat text: equal declarations give equal text."""
    found = _shape(node)
    if node.operation is None:
        return found | dict(lines(node.origin))
    found["operation"] = node.operation.family
    for name, text in lines(node.operation):
        # The `key` of a join is what it looks up; the node's own key is already in the text.
        found[name.replace("key.", "lookup.", 1) if name.startswith("key.") and node.join_spec else name] = text
    for side, part in node.operation.inputs.items():
        # A view has no rows: a reader's rows depend on how it is resolved.
        found |= {
            f"{side}.{name}": text
            for name, text in (_shape(part) if part.is_stored else describe_declaration(part)).items()
        }
    return found


def _shape(node: Node) -> dict[str, str]:
    """The properties that a node's readers see: kind, partitions, columns, and those of its kind, as history."""
    found = {"kind": node.kind, "partitions": str(node.partitions)}
    found |= {f"key.{column_name(c)}": normal(kind) for c, kind in node.key.items()}
    found |= {f"value.{column_name(c)}": kind for c, kind in _types(node).items()}
    for item in fields(node):
        if item.name not in _OWN:
            found |= dict(lines(getattr(node, item.name), item.name, default_of(item)))
    return found


def _types(node: Node) -> dict[str, str]:
    """Value columns with their types, as far as declarations give them."""
    if node.source is not None:
        return {column: normal(e.type) for column, e in node.source.value.items()}
    made = node.operation
    assert made is not None, node.name
    inputs = {side: _types(part) for side, part in made.inputs.items()}
    if made.keeps_values:
        first, *others = inputs.values()
        return {c: kind if all(o.get(c) == kind for o in others) else UNKNOWN for c, kind in first.items()}
    found = dict.fromkeys(node.value, UNKNOWN)
    for column, expression in made.select.items():
        side, name = split_reference(expression)
        if side in inputs:
            found[column] = inputs[side].get(name) or normal(made.inputs[side].key.get(name, UNKNOWN))
    return found


def split_reference(expression: object) -> tuple[str, str]:
    """(side, column) of an expression that is just a column; for any other, two empty texts."""
    found = _REFERENCE.fullmatch(expression.strip()) if isinstance(expression, str) else None
    if found is None:
        return "", ""
    side, bare, quoted = found.groups()
    return side or "left", bare or quoted.replace("``", "`")


def lines(value: object, path: str = "", default: object = MISSING) -> Iterator[tuple[str, str]]:
    """(path, text) of all parts of a value; nothing if it is the default."""
    if value is default or value == default:
        return
    if isinstance(value, Node):
        yield path, value.name
    elif isinstance(value, Expr):
        yield from ((path, normal(value.type)), (f"{path}.sql", value.sql))
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from lines(part, f"{path}.{column_name(str(name))}")
    elif is_dataclass(value):
        for item in fields(value):
            yield from lines(getattr(value, item.name), f"{path}.{item.name}".lstrip("."), default_of(item))
    elif callable(value):
        yield path, _function(value)
    else:
        yield path, "none" if value is None else str(value)


def default_of(item: Field[Any]) -> object:
    """A field's default; MISSING if it has none."""
    return item.default_factory() if item.default_factory is not MISSING else item.default


def column_name(name: str) -> str:
    """A column's name within a path, quoted if it has dots."""
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def comparable(one: str | None, other: str | None) -> bool:
    """Whether two texts differ; bytecode of different Python versions is not compared."""
    functions = [text.rpartition(" of ")[2] for text in (one, other) if text and text.startswith("function ")]
    return len(set(functions)) < 2


def _function(function: Callable[..., object]) -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"function {sha256(repr(_done_by(function)).encode()).hexdigest()[:12]} of Python {version}"


def _done_by(value: object) -> object:
    """A function's code without its position in the file, and the closed-over values that have a stable text."""
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_varnames, [_done_by(c) for c in value.co_consts]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return _done_by(value.__code__), [_done_by(v) for v in (*cells, *(value.__defaults__ or ()))]
    if isinstance(value, tuple | frozenset):
        return [_done_by(v) for v in (value if isinstance(value, tuple) else sorted(value, key=repr))]
    return value if isinstance(value, str | bytes | int | float | None) else type(value).__qualname__
