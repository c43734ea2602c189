"""Aggregates record by record: a table by another key, and a stream by key and window.

    table       a record leaves its old group and joins its new one: a row for each of the two, or one if they are one
    windowed    a record goes into every window that contains it and still takes records
    sliding     windows of records at most `difference` apart, made by the records themselves (KIP-450)

State is what the rules speak of: the table, and per window the records in it. Values are computed afresh from those.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rivermeet.joins.reference.options import VersionedSides
from rivermeet.joins.reference.records import Asks, Join, Record, Row, key_of, no_row
from rivermeet.pipelines import operations as declared
from rivermeet.pipelines.window import SlidingWindows

Columns = Mapping[str, tuple[str, Callable[[Any], Any] | None]]
"""Output column to function and what of a record's value it is of; None: of the record."""


def aggregate(columns: Columns, values: Sequence[Any]) -> tuple[Any, ...]:
    """One value per column, as SQL has it."""
    return tuple(
        len(values) if of is None else _FUNCTIONS[function]([v for v in map(of, values) if v is not None])
        for function, of in columns.values()
    )


_FUNCTIONS: Mapping[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda found: sum(found[1:], found[0]) if found else None,
    "min": lambda found: min(found, default=None),
    "max": lambda found: max(found, default=None),
    "avg": lambda found: float(sum(found[1:], found[0])) / len(found) if found else None,
}


@dataclass
class TableAggregate:
    """`group_of` gives a row's group, or None."""

    group_of: Callable[[Any, Any], Any]
    columns: Columns
    table: dict[Any, Any] = field(default_factory=dict)

    def process(self, x: Record) -> list[Row]:
        if x.key is None:
            return no_row(x, "null-key")
        old = self._group(x.key)
        self.table.pop(x.key, None)
        if x.value is not None:
            self.table[x.key] = x.value
        new = self._group(x.key)
        touched = [group for group in ([new] if old == new else [old, new]) if group is not None]
        return [
            Row(
                group,
                self._of(group),
                x.timestamp,
                x.position,
                x.position,
                rule="joined" if group == new else "left-group",
            )
            for group in touched
        ] or no_row(x, "left-deleted" if x.value is None else "no-group")

    def _group(self, key: Any) -> Any:
        return self.group_of(key, self.table[key]) if key in self.table else None

    def _of(self, group: Any) -> tuple[Any, ...] | None:
        rows = [value for key, value in self.table.items() if self.group_of(key, value) == group]
        return aggregate(self.columns, rows) if rows else None


@dataclass
class Windowed:
    """What both kinds of windows share: stream time, records without key or value, and the late ones."""

    columns: Columns
    grace: int
    late: list[Record] = field(default_factory=list)
    stream_time: int | None = None
    windows: dict[tuple[Any, int, int], list[Record]] = field(default_factory=dict)
    """(key, start, end) to the records in it."""

    def process(self, x: Record) -> list[Row]:
        if x.key is None or x.value is None:
            return no_row(x, "null-key" if x.key is None else "null-value")
        self.stream_time = x.timestamp if self.stream_time is None else max(self.stream_time, x.timestamp)
        close = self.last_end(x.timestamp) + self.grace
        if close <= self.stream_time:
            self.late.append(x)
            return no_row(x, "late", stream_time=self.stream_time, close=close)
        stream_time = self.stream_time
        changed = sorted(window for window in self.put(x) if window[2] + self.grace > stream_time)
        return [
            Row(
                window,
                aggregate(self.columns, [r.value for r in self.windows[window]]),
                max(r.timestamp for r in self.windows[window]),
                x.position,
                x.position,
            )
            for window in changed
        ] or no_row(x, "closed", stream_time=stream_time)

    def last_end(self, time: int) -> int:
        """End of the last window that contains a record at `time`."""
        raise NotImplementedError

    def put(self, x: Record) -> Iterable[tuple[Any, int, int]]:
        """Put the record into its windows, open or not; gives those that it changed or made."""
        raise NotImplementedError


@dataclass(kw_only=True)
class TimeWindowed(Windowed):
    """Windows [start, start + size) with start a multiple of `advance`, not below 0."""

    size: int
    advance: int

    def last_end(self, time: int) -> int:
        return time // self.advance * self.advance + self.size

    def put(self, x: Record) -> Iterable[tuple[Any, int, int]]:
        first = max(0, (x.timestamp - self.size) // self.advance + 1) * self.advance
        for start in range(first, x.timestamp + 1, self.advance):
            window = (x.key, start, start + self.size)
            self.windows.setdefault(window, []).append(x)
            yield window


@dataclass(kw_only=True)
class SlidingWindowed(Windowed):
    """Windows [start, start + difference], the end included here, and one higher in their key."""

    difference: int
    records: list[Record] = field(default_factory=list)

    def last_end(self, time: int) -> int:
        return time + self.difference + 1

    def put(self, x: Record) -> Iterable[tuple[Any, int, int]]:
        changed = []
        for window, held in self.windows.items():
            if window[0] == x.key and window[1] <= x.timestamp < window[2]:
                held.append(x)
                changed.append(window)
        self.records.append(x)
        wanted = [max(0, x.timestamp - self.difference)]
        wanted += [r.timestamp + 1 for r in self.records if r.key == x.key]
        for start in wanted:
            window = (x.key, start, start + self.difference + 1)
            if window in self.windows:
                continue
            held = [r for r in self.records if r.key == x.key and start <= r.timestamp <= start + self.difference]
            if held:
                self.windows[window] = held
                changed.append(window)
        return changed


@dataclass
class Declared:
    """An aggregate whose rows have the declared columns; a window's bounds are the last of its key."""

    aggregate: TableAggregate | Windowed

    def process(self, x: Record) -> list[Row]:
        rows = self.aggregate.process(x)
        return [replace(row, key=self._key(row.key), value=self._value(row.value)) for row in rows]

    @property
    def late(self) -> list[Record]:
        """Records that came after all their windows had closed."""
        return getattr(self.aggregate, "late", [])

    def _key(self, key: Any) -> tuple[Any, ...]:
        return key if isinstance(self.aggregate, TableAggregate) else (*key[0], *key[1:])

    def _value(self, value: tuple[Any, ...] | None) -> Mapping[str, Any] | None:
        return None if value is None else dict(zip(self.aggregate.columns, value, strict=True))


def asks(operation: declared.TableAggregate | declared.WindowedAggregate) -> Asks:
    """What is aggregated, and the group of a table's row."""
    of = {column: made.of for column, made in operation.aggregations.items() if made.of is not None}
    return {"left": {column: key.sql for column, key in getattr(operation, "key", {}).items()} | of}


def reference_of(operation: declared.TableAggregate | declared.WindowedAggregate) -> Join:
    """The reference over declared columns."""

    def of(column: str) -> Callable[[Any], Any]:
        return lambda value: value.found[column]

    columns = {
        column: (made.function, None if made.of is None else of(column))
        for column, made in operation.aggregations.items()
    }
    if isinstance(operation, declared.TableAggregate):
        grouped = TableAggregate(lambda key, value: key_of(operation.key, value.found), columns)
        return VersionedSides(Declared(grouped), operation.input.history)
    windows = operation.windows
    if isinstance(windows, SlidingWindows):
        return Declared(SlidingWindowed(columns, windows.grace, difference=windows.difference))
    return Declared(TimeWindowed(columns, windows.grace, size=windows.size, advance=windows.advance))
