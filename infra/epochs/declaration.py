"""A node's declaration as flat text, stored with every plan and commit, and which changes are compatible with its rows.

    then                        now
    value.n      INT            BIGINT          accepted: a wider type
    value.note                  STRING          accepted: a new column; old rows have NULL there
    select.note                 right.note      accepted if right.note is equally new: old rows would have NULL anyway
    select.who   right.name     right.title     refused: old rows were computed by the other expression
    partitions   4              8               refused: the keys of old rows are in other partitions

A change is accepted if a rebuild would give the same rows. Changes of the key are refused (with a
wider type it has another hash, and so another partition), and of everything that an operation's earlier rows depend on.
Exceptions:

- How a source reads its files may change at any time, except its key: a file is consumed once, and its records
  stay as they were read. Such a change is shown, and applies to later files.
- ``max_task_idle_ms`` affects when rows come and not which, and a table's own ``history`` matters only to its readers.
- An expression over a column whose type got wider is the same expression; it sees the wider type from now on. But
  profile "0.10.2" stores hashes of a foreign-key join's left rows from epoch to epoch, and those change with the type.

The text has one line per declared value, with the path to it:

    JoinWindow(before=1, after=2) under "window"     window.before 1, window.after 2, window.grace 0
    semantics="3.1"                                  nothing: it is the default
    {"n": expr("x + 1", "INT")} under "value"        value.n INT, value.n.sql x + 1
    a node under "left"                              left orders
    lambda left, right: left.n - right.n             function 3f0c… of Python 3.12

An option with its default is not written, so new options of a new release change no declaration. A function is
represented by its bytecode and the values that it closes over, because the columns that it returns have no stable text.

Source: the documents of Delta on schema evolution and type widening. Held by ``tests/infra/epochs/test_declaration.py``
and ``tests/infra/delta/test_schema_evolution.py``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.widening import normal, widens
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.pipelines import Expr, Node

_FREE = ("max_task_idle_ms", "history")
_FIXED = ("kind", "operation", "partitions")
_SELECTED = re.compile(r"((?:(?:left|right)\.)*)select\..+")
_VALUE = re.compile(r"((?:left|right)\.)*value\..+")


class DeclarationChangedError(EpochRefusedError):
    """A node whose declaration differs from the one its rows were computed with; the message has the difference."""

    remedy = "Rebuild the node, or take the change back."


@dataclass(frozen=True)
class Change:
    """The differences between two declarations, in lines like ``partitions: 4 -> 8``.

    ``flowing`` are compatible with the rows, ``refused`` are not. ``columns`` are value columns that the node gains:
    its changelog has them from its next epoch on, which is due for that reason alone.
    """

    flowing: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def changes(then: Mapping[str, str], now: Mapping[str, str], hashed: Collection[str] = ()) -> Change:
    """The differences; none if ``then`` is empty, as in notes from before declarations were stored.

    ``hashed`` are sides with stored hashes of their values: hashes change with a column's type.
    """
    flowing: list[str] = []
    refused: list[str] = []
    columns: list[str] = []
    for name in dict.fromkeys([*then, *now]) if then else ():
        old, new = then.get(name), now.get(name)
        if old == new or not comparable(old, new) or (old and new and UNKNOWN in (old, new)):
            continue
        flows = _flows(name, then, now, hashed)
        (flowing if flows else refused).append(f"{name}: {old or 'not declared'} -> {new or 'not declared'}")
        if old is None and name.startswith("value.") and not name.endswith(".sql"):
            columns.append(name.partition(".")[2])
    return Change(tuple(flowing), tuple(refused), tuple(columns))


def refuse_changed(node: Node, made: CommitNote | EpochPlan, version: int | None = None) -> Change:
    """The changes since the node's newest commit, of this version, or since a plan that has not run yet.

    Raises `DeclarationChangedError` if they are incompatible with the node's rows.
    """
    change = changes_of(node, made.declared)
    if change.refused:
        paths = NodeTables("", node.pipeline.name, node.name)
        what = "source" if node.source is not None else "join" if node.join_spec is not None else "operation"
        at = f"epoch {made.epoch}" + (f", version {version}" if version is not None else "")
        when = f"its changelog was written ({at})" if isinstance(made, CommitNote) else f"{at} was planned"
        raise DeclarationChangedError(
            f"{what} '{paths.pipeline}.{paths.node}' was declared differently when {when}: "
            f"{'; '.join(change.refused)}; run `{paths.rebuild}`, or take the change back",
            node=node.name,
            epoch=made.epoch,
            changes=change.refused,
        )
    return change


def changes_of(node: Node, then: Mapping[str, str]) -> Change:
    """The differences between a node and the stored text of its declaration."""
    made = node.operation
    hashed = [side for side in made.inputs if made.keeps_hashes_of(side)] if made is not None else []
    return changes(then, describe_declaration(node), hashed)


def new_columns(node: Node, note: CommitNote | None) -> tuple[str, ...]:
    """Columns that the node gains with its next epoch; ``note`` is that of its newest commit."""
    return changes_of(node, note.declared).columns if note is not None else ()


def refuse_lacking(node: Node, note: CommitNote) -> None:
    """Raise `DeclarationChangedError` if an input is declared with a column that no epoch has written yet."""
    columns = new_columns(node, note)
    if columns:
        pipeline = node.pipeline.name
        raise DeclarationChangedError(
            f"input '{pipeline}.{node.name}' is declared with column '{columns[0]}' and has not been run since (epoch "
            f"{note.epoch}): run it first (`rivermeet run {pipeline} --select {node.name}`)",
            column=columns[0],
            epoch=note.epoch,
        )


def _flows(name: str, then: Mapping[str, str], now: Mapping[str, str], hashed: Collection[str]) -> bool:
    old, new, made = then.get(name), now.get(name), now.get("operation")
    if name in _FREE or name in _FIXED or name.startswith("key."):
        return name in _FREE
    if _VALUE.fullmatch(name) and not name.endswith(".sql"):
        return new is not None and (old is None or (widens(old, new) and name.partition(".")[0] not in hashed))
    if made is None:
        return True
    selected = _SELECTED.fullmatch(name)
    if selected is None or old is not None or new is None:
        return False
    side, column = split_reference(new)
    read = f"{selected[1]}{side}.value.{column_name(column)}"
    return read in now and read not in then


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
