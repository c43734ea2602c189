"""Stream - global table join: a stream record is joined with what the table holds right then.

Key mapper: the stream value's product. Left join:

    right p mug@1     nothing: the table never triggers
    left  o1 p@3      (p, mug)@3
    right p null@4    nothing, and (p, mug) stays as it was sent
    left  o2 p@5      (p, null)@5, which an inner join leaves out

Source: KIP-99 (golden `s004.*`), docs/laws.md,
docs/kafka-streams.md 7. A record whose mapper gives no key has its one-sided row since Kafka
Streams 3.7 (KIP-962), so not in "0.10.2".
"""

from collections.abc import Callable, Iterable
from typing import Any

from rivermeet.joins.reference.records import Asks, Record, Row, Value, join_records, key_of, no_row, put
from rivermeet.pipelines import joins as declared


class StreamGlobalJoin:
    """Left is the stream, right the global table, which is one table over all partitions."""

    def __init__(self, how: str, key_mapper: Callable[[Any, Any], Any], semantics: str = "3.1") -> None:
        self.how, self.key_mapper, self.semantics = how, key_mapper, semantics
        self.table: dict[Any, Record] = {}

    def process(self, x: Record) -> list[Row]:
        if x.side == "right":
            if x.key is None:
                return no_row(x, "null-key")
            put(self.table, x)
            return no_row(x, "kept")
        if x.value is None:
            return no_row(x, "null-value")
        # The stream's own key may be null: the mapper alone decides what is looked up.
        mapped = self.key_mapper(x.key, x.value)
        lacking = "no-look-up-key" if mapped is None else "no-right"
        found = None if mapped is None else self.table.get(mapped)
        if found is None and (self.how == "inner" or (mapped is None and self.semantics == "0.10.2")):
            return no_row(x, lacking)
        return [join_records(x.key, x, found, x.timestamp, x, "joined" if found else lacking)]


def by_mapped_key(how: str, key: Iterable[str], semantics: str) -> StreamGlobalJoin:
    """The reference whose mapper has been evaluated: columns ``key`` of what was found of a record."""
    names = tuple(key)

    def mapper(_key: Any, value: Value) -> Any:
        return key_of(names, value.found)

    return StreamGlobalJoin(how, mapper, semantics)


def asks(join: declared.StreamGlobalJoin) -> Asks:
    """The key that stream records look up."""
    return {"left": join.key}


def reference_of(join: declared.StreamGlobalJoin) -> StreamGlobalJoin:
    """The reference of the declared profile; whether tables go first is the caller's order."""
    return by_mapped_key(join.how, join.right.key, join.semantics)
