"""Records, result rows and the order of processing: what every reference join shares.

Kafka Streams takes the record whose input has the lowest head timestamp; a tie goes to the left.

    left  10, 5     only heads count, so the 5 behind the 10 has to wait for it
    right  7, 12
    order  right 7, left 10, left 5, right 12

Source: KIP-353, docs/kafka-streams.md 0.1; docs/order.md has the proof
that a sort by running maximum gives the same order.

A family's ``reference`` module has two functions. ``asks`` says which of the declared expressions it needs of each
side's records, by name; the caller evaluates them into `Record.found` and `Value.found`. ``reference_of`` makes
the join itself; its state lives in it. Records come in processing order (`interleave`), those of a stream that is
joined with itself once. What has a ``commit`` holds rows back until the epoch's end.

What became of a record is said by a rule of `RULES`: in each row that it is in, and in its own `trace` where it gives
none. Held by ``tests/joins/why/test_recorded.py``.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol, cast

from rivermeet.pipelines import Operation
from rivermeet.pipelines.family import family_of

RULES = {
    "joined": "the row has all that it asks for",
    "null-key": "a record without key meets nobody",
    "null-value": "a record without value joins nothing",
    "late": "its window had closed when it came",
    "alone": "it found no partner when it came, and is answered at once",
    "waiting": "it waits for a partner, or for the grace of its table",
    "kept": "it is kept to be found, and causes nothing itself",
    "closed": "its window closed",
    "no-left": "the left side has no record for it",
    "no-right": "the right side has no record for it",
    "left-deleted": "the left record is a tombstone",
    "right-deleted": "the right record is a tombstone",
    "no-look-up-key": "the key that it looks up is null",
    "no-foreign-key": "its foreign key is null",
    "no-reference": "it refers to another record, or to none",
    "stale": "its old subscription stands, and it is not that of the present value",
    "not-latest": "its key has a newer version",
    "expired": "it is older than the table's history",
    "commit": "it waits for the commit, which emits the net change of its key",
    "filtered": "it does not pass",
    "no-group": "it belongs to no group",
    "left-group": "it belongs to another group now, or to none",
}
"""What may be said of a record, and of a row, by what decided it."""


@dataclass(frozen=True)
class NoRow:
    """Why a record gave no row: a rule of `RULES`, the stream time then, and that at which its window is closed."""

    rule: str
    stream_time: int | None = None
    close: int | None = None


@dataclass(frozen=True)
class Record:
    """One changelog record; `position` is its place in the order of processing.

    `found` has what declared expressions give of it: those that its join asks for, by their names
    (`asks`). On `trace`, where there is one, the reference writes why it gave no row.
    """

    side: str
    key: Any
    value: Any
    timestamp: int
    partition: int = 0
    offset: int = 0
    position: int = 0
    found: Mapping[str, Any] = field(default_factory=dict, compare=False)
    trace: list[NoRow] | None = field(default=None, compare=False, repr=False)


def no_row(x: Record, rule: str, **times: int) -> "list[Row]":
    """Write on a record's trace why it gives no row."""
    if x.trace is not None:
        x.trace.append(NoRow(rule, **times))
    return []


def sides(x: Record, other: Record | None = None) -> "tuple[Record | None, Record | None]":
    """A record and the one of the other side, left first."""
    return (x, other) if x.side == "left" else (other, x)


def places(x: Record, other: Record | None = None) -> dict[str, int | None]:
    """Positions of both sides; x is one of them."""
    left, right = sides(x, other)
    return {"left": left and left.position, "right": right and right.position}


@dataclass(frozen=True)
class Value:
    """A value of columns, with its whole record (key, value, `_timestamp`) and what was `found` of it.

    Values are equal where their columns are: that decides whether an answer of a foreign-key join is stale.
    """

    columns: Mapping[str, Any]
    record: Mapping[str, Any] = field(default_factory=dict, compare=False)
    found: Mapping[str, Any] = field(default_factory=dict, compare=False)


def key_of(names: Iterable[str], found: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """A key of columns; None if any of them is null."""
    key = tuple(found[name] for name in names)
    return None if None in key else key


@dataclass(frozen=True)
class Row:
    """One result row; `trigger`, `left` and `right` are positions of input records.

    `value` is a tuple (left value, right value), or None for a tombstone; of an operation on one input it is the
    columns of the result. `left_hash_of` is the left value whose hash a foreign-key result carries: None where the
    left row is gone. `rule` is what decided that it is as it is.
    """

    key: Any
    value: Any
    timestamp: int
    trigger: int
    left: int | None = None
    right: int | None = None
    left_hash_of: Any = None
    rule: str = field(default="joined", compare=False)


class Join(Protocol):
    """A reference join: an object that holds its whole state between two records."""

    def process(self, x: Record, /) -> list[Row]: ...


Asks = Mapping[str, Mapping[str, Any]]
"""Side to the expressions that are asked of its records, by name."""


class Reference(Protocol):
    """A family's reference module."""

    def asks(self, operation: Any) -> Asks:
        """Which expressions are evaluated of a side's records."""
        ...

    def reference_of(self, operation: Any) -> Join:
        """The join, without state yet."""
        ...


def reference_module(operation: Operation) -> Reference:
    """The reference of an operation's family; LookupError where a family from outside has none."""
    name = family_of(operation).reference
    if name is None:
        raise LookupError(f"family '{operation.family}' has no reference in plain Python")
    return cast(Reference, import_module(name))


def run(join: Join, records: Iterable[Record]) -> list[Row]:
    """Feed the records one by one and collect what they cause."""
    return [row for record in records for row in join.process(record)]


def number_records(records: Iterable[Record], start: int = 0) -> list[Record]:
    """The same records with `position` counted from `start` in the order given."""
    return [replace(record, position=i) for i, record in enumerate(records, start)]


def interleave(left: Iterable[Record], right: Iterable[Record]) -> list[Record]:
    """Order of a co-partitioned join: each partition is a task that sees only its own two heads.

    Tasks run side by side; here the partitions come one after the other, in ascending order.
    """
    records = [*left, *right]
    partitions = sorted({record.partition for record in records})
    return number_records(
        record
        for partition in partitions
        for record in by_lowest_head([r for r in records if r.partition == partition], lambda r: r.side)
    )


def by_lowest_head(records: list[Record], queue_of: Callable[[Record], Any]) -> list[Record]:
    """The record whose queue has the lowest head timestamp, again and again; ties go to the first queue by name."""
    queues: dict[Any, deque[Record]] = {}
    for record in sorted(records, key=lambda r: r.offset):
        queues.setdefault(queue_of(record), deque()).append(record)
    taken: list[Record] = []
    while queues:
        first = min(queues, key=lambda name: (queues[name][0].timestamp, name))
        taken.append(queues[first].popleft())
        if not queues[first]:
            del queues[first]
    return taken


def key_bytes(key: Any) -> Any:
    """A key as Kafka's serializers write it: fan-out is in the order of these bytes.

    So "p10" comes before "p2", and -1 after 1: two's complement starts with a one bit. A key of columns is in the
    order of its columns, as it is for the operator; texts are the same in both.
    """
    if isinstance(key, tuple):
        return key
    if isinstance(key, int):
        return key.to_bytes(8, "big", signed=True)
    return str(key).encode("utf-8")


def put(table: dict[Any, Record], x: Record) -> None:
    """The last record processed wins; a deleted row is gone together with its timestamp."""
    if x.value is None:
        table.pop(x.key, None)
    else:
        table[x.key] = x


def join_records(
    key: Any, left: Record | None, right: Record | None, timestamp: int, trigger: Record, rule: str = "joined"
) -> Row:
    """The row of two records; by a rule, either may be missing."""
    value = (left and left.value, right and right.value)
    return Row(key, value, timestamp, trigger.position, left and left.position, right and right.position, rule=rule)
