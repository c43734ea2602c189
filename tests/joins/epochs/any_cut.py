"""Any cut into epochs, same rows: what arrives, in which pieces, and what must be equal afterwards.

Many histories lie side by side, as partitions or under keys of their own, so that a few epochs cut all of them. The
rows of a node are derived in up to four ways:

| derived | by |
|---|---|
| in pieces | each queue cut at places of its own; inputs and runs in any order |
| at once | everything there before one single run |
| replayed | what each plan in the epoch log names, epoch by epoch, given to a fresh world |
| by reference | the same records, by (epoch, order within the epoch), through plain Python |

A `steady` node (one input, or a join that waits for ever) emits in pieces what it emits at once, all but ``epoch``.
Every other one emits what its replay emits, ``epoch`` too.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count, zip_longest
from operator import itemgetter
from typing import Any

from rivermeet.infra.commit_note import Offsets
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.joins.reference.records import Record, interleave, number_records
from rivermeet.pipelines import Join, Node, Pipeline
from rivermeet.pipelines.operations import OneInput
from tests.joins.epochs.batch import FILES
from tests.reference.histories import DELAYS, STEPS, partition_of
from tests.world import Record as Line
from tests.world import World

Order = Callable[[list[Record], list[Record]], list[Record]]
RECORDS = 12
"""Of each history and input."""
CLOSING = (1_000_000, 1_001_000)
"""Later than all else, twice: the second one releases what the first one causes."""
FOREIGN = ("f", "f", "g", "ff", "h", "")


@dataclass(frozen=True)
class Input:
    """An input of text; ``partitions`` None gives each history one of its own, and a clock of its own."""

    kind: str
    keys: Sequence[str | None]
    partitions: int | None = None
    column: str = "k"
    history: int | None = None

    @property
    def types(self) -> str:
        """DDL of key and value."""
        return f"key STRUCT<{self.column}: STRING>, value STRUCT<v: STRING>"

    def declared(self, pipeline: Pipeline, name: str, cases: int) -> Any:
        """The input's node."""
        options: dict[str, Any] = {"key": {self.column: "k"}, "value": ["v"], "timestamp": "ts"}
        if self.kind != "global_table":
            options["partitions"] = self.partitions or cases
        if self.history is not None:
            options["history"] = self.history
        return getattr(pipeline, self.kind)(name, FILES, **options)


@dataclass(frozen=True)
class Made:
    """A node and what is known of it.

    ``order`` puts both inputs of an epoch in order: `interleave` where partitions do not meet. ``in_ci`` is False where
    another node of the family has every row that this one has.
    """

    node: Node
    reference: Callable[[], Any] | None = None
    order: Order = interleave
    in_ci: bool = True


Groups = Sequence[Sequence[Made]]


def steady(node: Node) -> bool:
    """Whether no cut may change the rows."""
    if node.operation is None:
        return True
    return (isinstance(node.operation, OneInput) or waits(node)) and all(map(steady, node.operation.inputs.values()))


def waits(node: Node) -> bool:
    return isinstance(node.operation, Join) and node.operation.max_task_idle_ms is None


def histories(seed: int, inputs: Mapping[str, Input], cases: int) -> dict[str, list[Record]]:
    """Records by input: few keys, some null, moving foreign keys, repeats, tombstones, equal and late timestamps."""
    rng = random.Random(seed)
    found: dict[str, list[Record]] = {name: [] for name in inputs}
    clocks: Counter[int] = Counter()
    ends: Counter[tuple[str, int]] = Counter()
    for serial in range(RECORDS * len(inputs) * cases):
        case, name = rng.randrange(cases), rng.choice([*inputs])
        partitions, key = inputs[name].partitions, rng.choice(inputs[name].keys)
        clock = case if partitions is None else 0
        clocks[clock] += rng.choice(STEPS)
        named = key and f"{key}.{case}"
        partition = case if partitions is None else partition_of(named, partitions, serial)
        head = rng.choice(FOREIGN)
        value = f"{head and f'{head}.{case}'}|{rng.choice((1, 1, serial))}" if rng.random() < 0.8 else None
        time = max(0, clocks[clock] - rng.choice(DELAYS))
        found[name].append(Record(name, named, value, time, partition, ends[name, partition]))
        ends[name, partition] += 1
    return found


def lines(records: Iterable[Record]) -> list[Line]:
    return [(r.key and (r.key,), r.value and (r.value,), r.timestamp, r.partition) for r in records]


def closing(node: Node) -> list[Line]:
    """Records that let all others go, in every partition; a key always has one partition."""
    names = [
        next(name for n in count() if partition_of(name := f"end{n}", node.partitions) == p)
        for p in range(node.partitions)
    ]
    return [((name,), ("|0",), at, p) for at in CLOSING for p, name in enumerate(names)]


def in_pieces(
    world: World,
    inputs: Mapping[str, Node],
    groups: Groups,
    records: Mapping[str, Sequence[Record]],
    runs: int,
    rng: random.Random,
) -> None:
    """Publish and run in any order, ``runs`` times and once all is there; of a chain, a run may leave out a group."""
    parts = {name: _pieces(rng, records[name], runs + 1) for name in inputs}
    steps: list[str | None] = [*[*inputs] * (runs - 1), *[None] * runs]
    rng.shuffle(steps)
    for step in [*rng.sample([*inputs], len(inputs)), *steps]:
        if step is not None:
            world.publish(inputs[step], lines(parts[step].pop(0)))
            continue
        for made in (made for group in groups if group is groups[0] or rng.random() < 0.7 for made in group):
            world.run(made.node)
    for name in rng.sample([*inputs], len(inputs)):
        world.publish(inputs[name], [*lines(parts[name].pop(0)), *closing(inputs[name])])
    for made in (made for group in groups for made in group):
        world.run(made.node)


def _pieces(rng: random.Random, records: Sequence[Record], number: int) -> list[list[Record]]:
    """Each partition cut at places of its own."""
    pieces: list[list[Record]] = [[] for _ in range(number)]
    for p in sorted({r.partition for r in records}):
        mine = [r for r in records if r.partition == p]
        cuts = sorted(rng.randint(0, len(mine)) for _ in range(number - 1))
        for piece, start, end in zip(pieces, [0, *cuts], [*cuts, len(mine)], strict=True):
            piece += mine[start:end]
    return pieces


def at_once(world: World, inputs: Mapping[str, Node], groups: Groups, records: Mapping[str, Sequence[Record]]) -> None:
    """Everything is there before one run of each steady node."""
    for name, node in inputs.items():
        world.publish(node, [*lines(records[name]), *closing(node)])
    for made in (made for group in groups for made in group if steady(made.node)):
        assert world.run(made.node) is not None


# What must be equal.


def check_reached(world: World, node: Node, records: Mapping[str, Sequence[Record]], what: str) -> None:
    """Nothing but closing records is still held back."""
    found = last_note(world.runner(node.pipeline.name).paths(node).changelog)
    assert found is not None and node.operation is not None
    for side, source in node.operation.inputs.items():
        for p, given in Counter(r.partition for r in records.get(source.name, [])).items():
            assert found[1].consumed[side].get(p, -1) >= given - 1, f"{what}: {side} {p} is held back"


def check_same(one: World, other: World, node: Node, what: str, but: Sequence[str] = ()) -> None:
    """Rows and late records of a node in two worlds, without the columns ``but``."""
    for table, order in (("changelog", ("partition", "offset")), ("late", ("partition", "side", "offset"))):
        found, expected = (
            [{c: v for c, v in r.items() if c not in but} for r in sorted(w.rows(node, table), key=itemgetter(*order))]
            for w in (one, other)
        )
        _same(found, expected, what)


def check_fold(world: World, node: Node, what: str) -> None:
    """The folded table is the last row of each key."""
    last = {tuple(row["key"].values()): row for row in world.rows(node) if row["key"] is not None}
    expected = [
        {**row["key"], **row["value"], **{f"_{c}": row[c] for c in ("timestamp", "partition", "offset")}}
        for row in last.values()
        if row["value"] is not None
    ]
    _same(world.rows(node, "table"), sorted(expected, key=lambda r: (r["_partition"], r["_offset"])), what)


def check_replays(world: World, nodes: Sequence[Node], make: Callable[..., World], what: str) -> None:
    """Each node emits again what it emitted, given the slices of its plans as all that came; in worlds by plans."""
    alike: dict[Any, list[Node]] = {}
    for node in nodes:
        alike.setdefault(repr([_slices(node, plan) for plan in plans(world, node)]), []).append(node)
    for group in alike.values():
        operation = group[0].operation
        assert operation is not None
        sources = {source.name: source for source in operation.inputs.values()}
        fresh = make(f"replay-{group[0].name}", **{name: _types(world, source) for name, source in sources.items()})
        given = {name: world.rows(source) for name, source in sources.items()}
        for plan in plans(world, group[0]):
            for name, part in _slices(group[0], plan).items():
                new = [
                    (_values(row["key"]), _values(row["value"]), row["timestamp"], row["partition"])
                    for row in given[name]
                    if _within(row["partition"], row["offset"], *part)
                ]
                fresh.publish(sources[name], new)
            for node in group:
                fresh.run(node)
        for node in group:
            case = f"{what}, {node.name} replayed"
            assert [_slices(node, p) for p in plans(fresh, node)] == [_slices(node, p) for p in plans(world, node)], (
                case
            )
            check_same(world, fresh, node, case)


def check_reference(world: World, made: Made, what: str) -> None:
    """A node's rows are what plain Python says of the records that its plans name, plan by plan."""
    node, alone = made.node, made.order is interleave
    assert made.reference is not None and node.operation is not None
    given = {
        side: [
            Record(side, _plain(r["key"]), _plain(r["value"]), r["timestamp"], r["partition"], r["offset"])
            for r in world.rows(source)
        ]
        for side, source in node.operation.inputs.items()
    }
    itself = len({*node.operation.inputs.values()}) < len(given)
    rows = sorted(world.rows(node), key=lambda r: (r["partition"], r["offset"]))
    partition_of_key = {_plain(row["key"]): row["partition"] for row in rows}
    joins: dict[int, Any] = defaultdict(made.reference)
    expected: list[Any] = []
    taken: list[Record] = []
    for plan in plans(world, node):
        sides = [
            [r for r in given[side] if _within(r.partition, r.offset, part.after, part.upto)]
            for side, part in plan.inputs.items()
        ]
        epoch = made.order(sides[0], [] if itself else sides[-1] if len(sides) > 1 else [])
        for x in number_records(epoch, len(taken)):
            taken.append(x)
            for row in joins[x.partition if alone else 0].process(x):
                place = x.partition if alone or row.key is None else partition_of_key.get(row.key, -1)
                by = _place(asdict(taken[row.trigger]), itself)
                value = None if row.value is None else _padded([*_flat(row.value)], len(node.value))
                expected.append((place, row.key, value, row.timestamp, *by))
    found = [
        (r["partition"], _plain(r["key"]), _values(r["value"]), r["timestamp"], *_place(r["trigger"], itself))
        for r in rows
    ]
    _same(found, sorted(expected, key=lambda row: row[0]), what)


def plans(world: World, node: Node) -> list[EpochPlan]:
    """A node's plans, all of them committed."""
    log = world.runner(node.pipeline.name).log
    return [EpochPlan.model_validate_json(body) for body in log.lines(node.name, "plan").values()]


def _slices(node: Node, plan: EpochPlan) -> dict[str, tuple[Offsets, Offsets]]:
    assert node.operation is not None
    return {node.operation.inputs[side].name: (part.after, part.upto) for side, part in plan.inputs.items()}


def _within(partition: int, offset: int, after: Offsets, upto: Offsets) -> bool:
    return after.get(partition, -1) < offset <= upto.get(partition, -1)


def _types(world: World, node: Node) -> str:
    schema = read(world.spark, world.runner(node.pipeline.name).paths(node).changelog).schema
    return ", ".join(f"{column} {schema[column].dataType.simpleString()}" for column in ("key", "value"))


def _values(columns: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    return None if columns is None else tuple(columns.values())


def _flat(value: Any) -> Iterator[Any]:
    """Columns of a reference's value, in which each side is one value, or a tuple of several."""
    if isinstance(value, tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _padded(values: list[Any], width: int) -> tuple[Any, ...]:
    """A right side that is not there is one null for each of its columns."""
    return (*values, *[None] * (width - len(values)))


def _plain(columns: Mapping[str, Any] | None) -> Any:
    """Key or value as the references have it: one column is just its value."""
    found = _values(columns)
    return found[0] if found and len(found) == 1 else found


def _place(record: Mapping[str, Any], itself: bool) -> tuple[Any, ...]:
    """Where a trigger lies; which copy of a record triggers in a join with itself is not known to the reference."""
    return record["partition"], record["offset"], itself or record["side"]


def _same(found: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    for at, (one, other) in enumerate(zip_longest(found, expected)):
        assert one == other, f"{what}: row {at} of {len(found)} and {len(expected)}"
