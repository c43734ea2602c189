"""Stream - table join: a stream record is joined with the table's value; the table never triggers.

Left join, plain table:

    left  k A@3     (A, null)@3
    right k a@9     nothing
    left  k B@5     (B, a)@5: the value of now, though it is newer than the record
    right k null@6  nothing

With `right_versioned_ms` the lookup is as of the record's timestamp, so B@5 would give (B, null).
With `table_grace_ms` a record waits until the stream is that much further, and then is looked up.

Source: golden `s000.st.*`, `s002.st.*`, KIP-889, KIP-914, KIP-923, KIP-962, docs/laws.md, and
docs/kafka-streams.md 3 and 4.
"""

from rivermeet.joins.reference.records import Asks, Join, Record, Row, join_records, key_bytes, no_row
from rivermeet.joins.reference.versioned import BEGINNING, PlainTable, VersionedTable
from rivermeet.pipelines import joins as declared
from rivermeet.pipelines.expressions import quote


class StreamTableJoin:
    """Left is the stream, right the table; both co-partitioned, here with one partition."""

    def __init__(
        self,
        how: str,
        semantics: str = "3.1",
        right_versioned_ms: int | None = None,
        table_grace_ms: int | None = None,
    ) -> None:
        self.how, self.semantics, self.grace = how, semantics, table_grace_ms
        self.table = PlainTable() if right_versioned_ms is None else VersionedTable(right_versioned_ms)
        self.waiting: list[Record] = []
        self.observed = BEGINNING

    def process(self, x: Record) -> list[Row]:
        if x.side == "right":
            return self._update(x)
        if x.value is None and self.semantics != "0.10.0":
            return no_row(x, "null-value")
        if x.key is None:
            return self._without_key(x)
        return self._join(x, x) if self.grace is None else self._wait(x, self.grace)

    def _update(self, x: Record) -> list[Row]:
        if x.key is not None:
            return no_row(x, self.table.put(x).rule or "kept")
        if self.semantics == "0.10.0":
            raise ValueError("Kafka Streams 0.10.1 refuses a table record without key")
        return no_row(x, "null-key")

    def _without_key(self, x: Record) -> list[Row]:
        if self.how == "inner" or self.semantics.startswith("0."):
            return no_row(x, "null-key")
        if self.grace is not None and self.semantics == "kafka-4":
            raise ValueError("Kafka Streams' buffer refuses a null key and the task dies")
        # Nothing can be looked up, now or later, so there is nothing to wait for.
        return self._join(x, x)

    def _wait(self, x: Record, grace: int) -> list[Row]:
        if x.timestamp < self.observed - grace:
            return self._join(x, x)
        self.waiting.append(x)
        no_row(x, "waiting")
        self.observed = max(self.observed, x.timestamp)
        # The buffer is sorted by timestamp and key; only then comes the order of arrival.
        due = sorted(
            (o for o in self.waiting if o.timestamp <= self.observed - grace),
            key=lambda o: (o.timestamp, key_bytes(o.key), o.position),
        )
        self.waiting = [o for o in self.waiting if o.timestamp > self.observed - grace]
        return [row for o in due for row in self._join(o, x)]

    def _join(self, o: Record, trigger: Record) -> list[Row]:
        found = None if o.key is None else self.table.as_of(o.key, o.timestamp)
        lacking = "null-key" if o.key is None else "no-right"
        if found is None and self.how == "inner":
            return no_row(o, lacking)
        return [join_records(o.key, o, found, o.timestamp, trigger, "joined" if found else lacking)]


def asks(join: declared.StreamTableJoin) -> Asks:
    """The key that stream records look up: their own, or that of a windowed table's row."""
    return {"left": join.key}


def reference_of(join: declared.StreamTableJoin) -> Join:
    """The reference of the declared profile; a window that a record picks is looked up as a global table's key is."""
    if join.key != {column: quote(column) for column in join.right.key}:
        from rivermeet.joins.stream_global import reference

        return reference.by_mapped_key(join.how, join.right.key, join.semantics)
    return StreamTableJoin(join.how, join.semantics, join.right.history, join.grace)
