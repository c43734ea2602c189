"""The rows of a pipeline's changelogs, asked one by one: by place or by key; and its dead letters of a key.

Dead letters are rows of a source that name the key and are no records, and records that no row can be made of:

    planes, key N1    "N1,x,BOEING"  column 'year': 'x' is not INT      shown
                      "N10,y,BOEING" column 'year': 'y' is not INT      not: N10 is another word

A row that did not parse has no key: its text is looked through for the key's values. Held by
``tests/assets/why/test_letters.py``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from rivermeet.assets.project import Project
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.few_rows import Where, few_rows, rows_where
from rivermeet.infra.delta.io import last_note
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.source_kinds import kind_of
from rivermeet.infra.source_range import Origin
from rivermeet.joins.why.evidence import Key
from rivermeet.pipelines import Node
from rivermeet.pipelines.errors import NotFoundError

Row = Mapping[str, Any]


@dataclass
class Changelog:
    """The changelog of one node, as of its last commit, and the plans that made it."""

    project: Project
    node: Node
    _places: dict[tuple[int, int], Row | None] = field(default_factory=dict)

    @cached_property
    def note(self) -> CommitNote | None:
        """The note of the last commit; None before the first."""
        found = last_note(self._paths.changelog)
        return found[1] if found else None

    @cached_property
    def key_type(self) -> pa.StructType:
        """Type of the key."""
        return self._schema.field("key").type

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns that expressions see of a record."""
        parts = (field for part in ("key", "value") for field in self._schema.field(part).type)
        return pa.schema([*parts, pa.field("_timestamp", pa.int64())])

    @cached_property
    def _schema(self) -> pa.Schema:
        table = open_table(self._paths.changelog)
        if table is None:
            pipeline = self.node.pipeline.name
            raise NotFoundError(f"'{self.node.name}' is not materialised yet: run `rivermeet run {pipeline}`")
        return pa.schema(table.schema().to_arrow())

    @cached_property
    def plans(self) -> list[EpochPlan]:
        """Committed plans of the incarnation, oldest first."""
        if self.note is None:
            return []
        plans = self.project.context(self.node.pipeline).log.open_plans(self.node.name, self.note.since - 1)
        return [plan for epoch, plan in plans.items() if epoch <= self.note.epoch]

    def of_key(self, key: Mapping[str, Any] | None) -> list[Row]:
        """All rows of a key, by partition and offset: a record without a key has any partition."""
        # Its places first: of ten million rows that takes 0.2 s, and all columns of their row groups 3 s.
        by_partition: dict[int, list[int]] = {}
        for place in self._rows(self._paths.changelog, self._is_key(key), ["partition", "offset"]):
            by_partition.setdefault(place["partition"], []).append(place["offset"])
        rows: list[Row] = []
        for partition, offsets in by_partition.items():
            where = [Where(("partition",), "==", partition), Where(("offset",), "in", offsets)]
            rows += self._rows(self._paths.changelog, where)
        found = sorted(rows, key=lambda row: (row["partition"], row["offset"]))
        self._places |= {(row["partition"], row["offset"]): row for row in found}
        return found

    def at(self, partition: int, offset: int) -> Row | None:
        """The row at a place."""
        place = partition, offset
        if place not in self._places:
            where = [Where(("partition",), "==", partition), Where(("offset",), "==", offset)]
            self._places[place] = next(iter(self._rows(self._paths.changelog, where)), None)
        return self._places[place]

    def times(self, partition: int, after: int, upto: int) -> pa.Table:
        """``offset`` and ``timestamp`` (ms) of a partition's records in ``(after, upto]``."""
        where, columns = [Where(("partition",), "==", partition)], ["offset", "timestamp"]
        where += [Where(("offset",), ">", after), Where(("offset",), "<=", upto)]
        found = rows_where(self._paths.changelog, where, self.project.sessions.open, columns)
        return pa.table({name: pa.array([], pa.int64()) for name in columns}) if found is None else found

    def late(self, key: Mapping[str, Any] | None) -> list[Row]:
        """Rows of the late table with a key, which is one of the input's."""
        return self._keep_committed(self._rows(self._paths.late, self._is_key(key)))

    def letters(self) -> list[Row]:
        """Dead letters of the incarnation."""
        return self._keep_committed(self._rows(self._paths.dead_letter, []))

    def origin_of(self, row: Row) -> Origin:
        """Where a record of a source came from: the place that is kept, or what the plan of its epoch has read.

        | source | file | line |
        |---|---|---|
        | files | path, and ``!member`` of an archive | the line, from 1 with the header; of Parquet the row |
        | topic | TOPIC/PARTITION | the offset |
        | table of PostgreSQL | DATABASE.SCHEMA.TABLE | the position of the commit, as a number |
        | Delta table | its path | the version |

        Held by ``tests/assets/why/test_origins.py``.
        """
        kind = kind_of(self.node)
        assert kind is not None, "it has no inputs"
        kept, epoch = row.get("origin") or {}, row["epoch"]
        plan = next((plan for plan in self.plans if plan.epoch == epoch), None)
        reads = plan.reads if plan is not None else None
        again = " (a dead letter that was read again)" if plan is not None and plan.retries else ""
        if kept.get("file"):
            file, line = kept["file"], kept.get("line")
            warning = reads.warning(file) if reads is not None else ""
            return Origin(file, line, f"{kind.ranges.place(file, line)}{again}{warning}")
        found = reads.among(epoch) if reads is not None else Origin(None, None, f"epoch {epoch}")
        return replace(found, says=f"{found.says}{again}")

    def _keep_committed(self, rows: list[Row]) -> list[Row]:
        note = self.note
        if note is None:
            return []
        # A run that was killed may have written rows of a plan that was put aside since: another epoch has them again.
        log = self.project.context(self.node.pipeline).log
        aside = log.lines(self.node.name, "refused", note.since - 1)
        return [row for row in rows if note.since <= row["epoch"] <= note.epoch and row["epoch"] not in aside]

    def _is_key(self, key: Mapping[str, Any] | None) -> list[Where]:
        if key is None:
            return [Where(("key",), "==", None)]
        return [Where(("key", name), "==", value) for name, value in key.items()]

    def _rows(self, path: str, where: list[Where], columns: list[str] | None = None) -> list[Row]:
        return [*few_rows(path, where, self.project.sessions.open, columns)]

    @property
    def _paths(self):
        return self.project.paths(self.node)


@dataclass
class Changelogs:
    """Those of all nodes that are asked for."""

    project: Project
    _known: dict[str, Changelog] = field(default_factory=dict)

    def of(self, node: Node) -> Changelog:
        """The changelog of a node."""
        return self._known.setdefault(node.name, Changelog(self.project, node))


@dataclass(frozen=True)
class Letter:
    """A dead letter: where it stands, its text, and why it is no record."""

    node: str
    place: str
    text: str | None
    reason: str
    epoch: int


def letters_of(changelog: Changelog, keys: Mapping[str, Key | None]) -> list[Letter]:
    """The letters that name a key: of a computed node by side, as each input has it; of a source as ``left``."""
    found: list[Letter] = []
    for letter in changelog.letters():
        side = letter.get("side") or "left"
        key = keys.get(side)
        if key is None:
            continue
        text, place = _text(letter), _place(letter)
        if "side" in letter:
            named = json.loads(letter["key"]) if letter["key"] else None
            if named is None or {c: str(v) for c, v in named.items()} != {c: str(v) for c, v in key.items()}:
                continue
        elif text is None or not _names(text, key):
            continue
        found.append(Letter(changelog.node.name, place, text, letter["reason"], letter["epoch"]))
    return found


def _place(letter: Row) -> str:
    if "side" in letter:
        return f"{letter['side']} record, partition {letter['partition']}, offset {letter['offset']}"
    line = letter["line"] if letter["line"] is not None else f"{letter['position']} of the bad ones"
    return f"{letter['file']}, line {line}"


def _text(letter: Row) -> str | None:
    """The letter's row; of a topic's the bytes of key and value as text."""
    text = letter.get("text", letter.get("value"))
    if "side" in letter or text is None or not text.startswith("{"):
        return text
    try:
        kept = json.loads(text)
        parts = [base64.b64decode(kept[part]).decode("utf-8", "replace") for part in ("key", "value") if kept.get(part)]
    except (ValueError, TypeError, AttributeError):
        return text
    return " ".join(parts) or text


def _names(text: str, key: Mapping[str, Any]) -> bool:
    """Whether a text has all texts and whole numbers of a key as words; a time may be spelled otherwise there."""
    words = [str(value) for value in key.values() if isinstance(value, str | int)]
    return bool(words) and all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words)
