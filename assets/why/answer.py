"""What `rivermeet why` answers, as values; in JSON, and as a tree for the terminal, rows oldest first.

fleet  carrier=UA, flight=15
├── 2013-03-01 05:00:00  {manufacturer: BOEING}  epoch 3, partition 0, offset 70
│   ├── triggered by right 'planes' tail_number=N1 …
│   │   └── from planes.csv.zip!planes.csv, line 7
│   └── joined with left 'flights' …
└── dead letter …
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any

from rich.text import Text
from rich.tree import Tree

from rivermeet.assets.why.changelogs import Letter
from rivermeet.infra.printable import printable
from rivermeet.infra.source_range import Origin
from rivermeet.joins.why.evidence import Key, moment, show, show_key
from rivermeet.pipelines.plural import pluralize


@dataclass(frozen=True)
class Cause:
    """A record that a row was made of; ``row`` is None where the side had none.

    Its ``role`` is ``trigger`` where it caused the row, ``joined`` where it was only found.
    """

    side: str
    node: str
    role: str
    row: Explained | None


@dataclass(frozen=True)
class Replaced:
    """How a table's row ended: by which later row of its key, whether that is a tombstone, and what triggered it.

    ``side`` and ``node`` are those of the trigger; None in a source.
    """

    offset: int
    epoch: int
    timestamp: int
    tombstone: bool
    side: str | None = None
    node: str | None = None


@dataclass(frozen=True)
class Explained:
    """A row of a changelog, and what it comes from: records of the inputs, or a place outside."""

    node: str
    key: Key | None
    value: Mapping[str, Any] | None
    timestamp: int
    partition: int
    offset: int
    epoch: int
    causes: tuple[Cause, ...] = ()
    says: tuple[str, ...] = ()
    origin: Origin | None = None
    replaced: Replaced | None = None


@dataclass(frozen=True)
class Absent:
    """Why a key has no live row: the rule's code, a sentence, and the records that show it."""

    node: str
    code: str
    says: str
    records: tuple[Explained, ...] = ()
    below: tuple[Absent, ...] = ()


@dataclass(frozen=True)
class Answer:
    """All about one key of a node.

    Attributes
    ----------
    total
        Rows of the key in the changelog; the newest of them are explained.
    live
        Whether the key has a row: in a table, whether its last row is no tombstone.
    """

    pipeline: str
    node: str
    kind: str
    key: Key
    total: int
    live: bool
    rows: tuple[Explained, ...]
    absent: tuple[Absent, ...] = ()
    late: tuple[Mapping[str, Any], ...] = ()
    dead: tuple[Letter, ...] = ()
    notes: tuple[str, ...] = field(default=())


def as_json(answer: Answer) -> dict[str, Any]:
    """The answer with nothing but JSON's types: instants as ISO 8601, bytes in base64."""
    return _plain(asdict(answer))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


UNCUT = 100_000
"""Columns of a line that nothing cuts: in a file, a pipe, or a box that scrolls."""
WIDEST = 160
"""Characters of a value that are shown; JSON has all."""


def tree_of(answer: Answer) -> Tree:
    """The answer as a tree."""
    more = answer.total - len(answer.rows)
    count = pluralize(answer.total, "row") + (f", the newest {len(answer.rows):,}" if more else "")
    root = Tree(_line(f"{answer.pipeline}.{answer.node} ({answer.kind})  {show_key(answer.key)}: {count}", ""))
    for row in answer.rows:
        _row(root.add(_line(_head(row), "bold")), row)
    if not answer.live:
        absent = root.add(_line("there is no row now, because" if answer.rows else "there is no row, because", "bold"))
        for reason in answer.absent:
            _absent(absent, reason)
    for late in answer.late:
        root.add(_line(_late(late), "yellow"))
    for letter in answer.dead:
        text = "" if letter.text is None else f": {_cut(letter.text)}"
        root.add(_line(f"dead letter of '{letter.node}', {letter.place}{text} ({letter.reason})", "red"))
    for note in answer.notes:
        root.add(_line(note, "yellow"))
    return root


def _row(branch: Tree, row: Explained) -> None:
    for cause in row.causes:
        _cause(branch, cause)
    for says in row.says:
        branch.add(_line(says, "cyan"))
    if row.origin is not None:
        branch.add(_line(f"from {row.origin.says}", "green"))
    if row.replaced is not None:
        end = row.replaced
        how = "retracted by a tombstone" if end.tombstone else "replaced"
        by = "" if end.node is None else f", triggered by {end.side} '{end.node}'"
        text = f"{how} @ {moment(end.timestamp)} in epoch {end.epoch}, by offset {end.offset}{by}"
        branch.add(_line(text, "dim"))


def _cause(branch: Tree, cause: Cause) -> None:
    says = "triggered by" if cause.role == "trigger" else "joined with"
    if cause.row is None:
        branch.add(_line(f"{says} nothing of {cause.side} '{cause.node}'", ""))
        return
    at = cause.row
    text = f"{says} {cause.side} '{cause.node}' {show_key(at.key)}: {_head(at)}"
    _row(branch.add(_line(text, "")), at)


def _absent(branch: Tree, reason: Absent) -> None:
    below = branch.add(_line(reason.says, "cyan"))
    for row in reason.records:
        _row(below.add(_line(f"'{row.node}' {show_key(row.key)}: {_head(row)}", "")), row)
    for each in reason.below:
        _absent(below, each)


def _head(row: Explained) -> str:
    """A row in one line: its time, its value, and its place."""
    value = "tombstone" if row.value is None else _cut(", ".join(f"{c}={show(v)}" for c, v in row.value.items()))
    return f"{moment(row.timestamp)}  {value}  [epoch {row.epoch}, partition {row.partition}, offset {row.offset}]"


def _late(late: Mapping[str, Any]) -> str:
    place = f"partition {late['partition']}, offset {late['offset']}"
    return f"late: {late['side']} record @ {moment(late['timestamp'])}, {place}: {late['reason']}"


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}…"


def _line(text: str, style: str):
    # A Text, and not markup: a value may have square brackets.
    return Text(printable(text), style=style)
