"""From the rows of a key back to the places that their records came from.

    fleet (N1's flight)   triggered by right planes N1         planes.csv.zip!planes.csv, line 7
                          joined with left flights UA 15       flights/2013-01.csv, line 12

Each row of a computed node has a trigger; the family says what it was made of (``joins/why``), and each of these
records is a row of its own node. Where a key has no live row, the family says why, and of an input that has no record
of the key the same is asked there. Held by ``tests/assets/why/test_walk.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rivermeet.assets.refused.states import states
from rivermeet.assets.why.answer import Absent, Answer, Cause, Explained, Replaced
from rivermeet.assets.why.changelogs import Changelogs, Letter, Row, letters_of
from rivermeet.assets.why.records import Expressions, Records
from rivermeet.joins.why.evidence import Found, Key, ResultRow
from rivermeet.joins.why.families import explain_absence, find_origins
from rivermeet.pipelines import Node, limits


@dataclass
class Walk:
    """The walk back from one key; what was read is kept."""

    changelogs: Changelogs
    expressions: Expressions
    _records: dict[str, Records] = field(default_factory=dict)
    _letters: dict[Letter, None] = field(default_factory=dict)
    _asked: set[tuple[str, str]] = field(default_factory=set)

    def why(self, node: Node, key: Key, limit: int) -> Answer:
        """Explain the newest ``limit`` rows of a key, and why it has no live row."""
        rows = self.changelogs.of(node).of_key(key)
        live = bool(rows) and (not node.is_table or rows[-1]["value"] is not None)
        shown = rows[-limit:]
        ends = {id(row): after for row, after in pairwise(rows)} if node.is_table else {}
        explained = tuple(
            replace(self.explain(node, row), replaced=self._find_replaced(node, ends.get(id(row)))) for row in shown
        )
        records = self.records(node) if node.operation is not None else None
        absent = () if live else self.absent(node, key)
        self._collect(node, key)
        own = None if records is None else _key_of(records.operation.inputs["left"], key)
        late = () if records is None or own is None else tuple(records.late(own))
        dead, notes = tuple(self._letters), self._notes(node)
        of = node.pipeline.name, node.name, node.kind, key
        return Answer(*of, len(rows), live, explained, absent, late, dead, notes)

    def _notes(self, node: Node) -> tuple[str, ...]:
        """What keeps the node from showing what its inputs have."""
        name = node.pipeline.name
        rebuilt = self.records(node).find_rebuilt() if node.operation is not None else []
        found = [
            f"'{part}' was recomputed, and '{node.name}' has not read it since: run `rivermeet run {name}`"
            for part in rebuilt
        ]
        found += (says for records in self._records.values() for says in records.cut)
        context = self.changelogs.project.context(node.pipeline)
        for state in states(context, node):
            if state.open:
                epoch = f"epoch {state.held.epoch} of '{node.name}' is {state.state}"
                found.append(f"{epoch}, and its rows are not committed: `rivermeet quarantine show {name}`")
        return tuple(found)

    def records(self, node: Node) -> Records:
        """The evidence of a computed node."""
        return self._records.setdefault(node.name, Records(self.changelogs, node, self.expressions))

    def explain(self, node: Node, row: Row, depth: int = 0) -> Explained:
        """A row with its causes, back to the sources."""
        columns = ("key", "value", "timestamp", "partition", "offset", "epoch")
        plain = Explained(node.name, *(row[name] for name in columns))
        if node.operation is None:
            if row["key"] is not None:
                self._collect(node, row["key"])
            return replace(plain, origin=self.changelogs.of(node).origin_of(row))
        if depth == limits.WALKED_NODES:
            return replace(plain, says=("what it comes from is left out here: it is too deep",))
        records, at = self.records(node), row["trigger"]
        trigger = records.record(at["side"], at["partition"], at["offset"])
        if trigger is None or trigger.order is None:
            place = f"{at['side']} record, partition {at['partition']}, offset {at['offset']}"
            return replace(plain, says=(f"its trigger, {place}, is not there any more",))
        made = find_origins(node.operation, _result(row, trigger), records)
        causes = [self._cause(records, side, found, trigger, depth) for side, found in made.parts.items()]
        if all(found is None or not _same(found, trigger) for found in made.parts.values()):
            causes.append(self._cause(records, trigger.side, trigger, trigger, depth))
        for side, key in made.asked:
            self._collect(records.resolve(side)[1], key)
        return replace(plain, causes=tuple(causes), says=made.says)

    def _find_replaced(self, node: Node, after: Row | None) -> Replaced | None:
        if after is None:
            return None
        side = None if node.operation is None else after["trigger"]["side"]
        by = None if side is None else self.records(node).resolve(side)[1].name
        return Replaced(after["offset"], after["epoch"], after["timestamp"], after["value"] is None, side, by)

    def _cause(self, records: Records, side: str, found: Found | None, trigger: Found, depth: int) -> Cause:
        node = records.resolve(side)[1]
        role = "trigger" if found is not None and _same(found, trigger) else "joined"
        row = None if found is None else self.changelogs.of(node).at(found.partition, found.offset)
        if found is None or row is None:
            return Cause(side, node.name, role, None)
        explained = self.explain(node, row, depth + 1)
        behind = records.behind(side, found, trigger)
        if behind is not None:
            part, other = behind
            beside = None if other is None else self.changelogs.of(part).at(other.partition, other.offset)
            shown = None if beside is None else self.explain(part, beside, depth + 1)
            explained = replace(explained, causes=(*explained.causes, Cause("right", part.name, "joined", shown)))
        return Cause(side, node.name, role, explained)

    def absent(self, node: Node, key: Key, depth: int = 0) -> tuple[Absent, ...]:
        """Why a key has no live row."""
        self._collect(node, key)
        if node.operation is None:
            return (self._not_in_source(node, key),)
        records = self.records(node)
        found: list[Absent] = []
        for reason in explain_absence(node.operation, key, records):
            parts = [(records.resolve(one.side)[1], one) for one in reason.records]
            rows = [(part, self.changelogs.of(part).at(one.partition, one.offset)) for part, one in parts]
            shown = tuple(self.explain(part, row, depth + 1) for part, row in rows if row is not None)
            below: tuple[Absent, ...] = ()
            if reason.asked is not None and depth < limits.WALKED_NODES:
                # Why that input has no record of the key.
                below = self.absent(records.resolve(reason.asked[0])[1], reason.asked[1], depth + 1)
            found.append(Absent(node.name, reason.code, reason.says, shown, below))
        if letters := [letter for letter in self._letters if letter.node == node.name]:
            says = f"a record of it cannot be joined, and is a dead letter: {letters[-1].reason}"
            found.append(Absent(node.name, "dead-letter", says))
        if not found:
            says = "nothing says why: compare by `rivermeet verify " + node.pipeline.name + "`"
            found.append(Absent(node.name, "unexplained", says))
        return tuple(found)

    def _not_in_source(self, node: Node, key: Key) -> Absent:
        self._collect(node, key)
        rows = self.changelogs.of(node).of_key(key)
        if rows:
            return Absent(node.name, "deleted", "its last record is a tombstone", (self.explain(node, rows[-1]),))
        source = node.source
        where = f", or whose rows fail `{source.where}`" if source is not None and source.where else ""
        letters = [letter for letter in self._letters if letter.node == node.name]
        if letters:
            says = f"its row is a dead letter: {letters[-1].reason}"
            return Absent(node.name, "dead-letter", says)
        # No server is asked.
        unread = self.changelogs.project.source_step(node).describe_unread()
        more = f"; not read yet: {unread}" if unread else ""
        return Absent(node.name, "not-delivered", f"nothing that was read of '{node.name}' has the key{where}{more}")

    def _collect(self, node: Node, key: Key) -> None:
        if (node.name, repr(key)) in self._asked:
            return
        self._asked.add((node.name, repr(key)))
        sides: Mapping[str, Key | None] = {"left": key}
        if node.operation is not None:
            sides = {side: _key_of(part, key) for side, part in node.operation.inputs.items()}
        for letter in letters_of(self.changelogs.of(node), sides):
            self._letters[letter] = None


def _key_of(part: Node, key: Key) -> Key | None:
    """A result's key as an input has it; None where it does not have all of its columns."""
    own = {name: value for name, value in key.items() if name in part.key}
    if own.keys() == set(part.key):
        return own
    return dict(zip(part.key, key.values(), strict=True)) if len(part.key) == len(key) else None


def _result(row: Row, trigger: Found) -> ResultRow:
    kept = {name: row.get(name) for name in ("key", "value", "timestamp", "partition", "left_offset", "right_offset")}
    return ResultRow(trigger=trigger, **kept)  # type: ignore[arg-type]


def _same(one: Found, other: Found) -> bool:
    return (one.side, one.partition, one.offset) == (other.side, other.partition, other.offset)
