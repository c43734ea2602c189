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

Source: the documents of Delta on schema evolution and type widening. Held by ``tests/infra/epochs/test_declaration.py``
and ``tests/infra/delta/test_schema_evolution.py``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.widening import widens
from rivermeet.infra.epochs.declared_text import UNKNOWN, column_name, comparable, describe_declaration, split_reference
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.refusal import EpochRefusedError
from rivermeet.pipelines import Node

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
