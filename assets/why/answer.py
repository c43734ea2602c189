"""What `rivermeet why` answers, as values that JSON and the terminal are made of."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any

from rivermeet.assets.why.letters import Letter
from rivermeet.infra.source_range import Origin
from rivermeet.joins.why.evidence import Key


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
