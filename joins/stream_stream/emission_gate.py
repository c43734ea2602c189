"""The emission gate of "kafka-4": when unmatched records are emitted.

Per partition there is a list of waiting records, by (timestamp, right before left, key, arrival), and ``min_time``,
which a new record lowers. Record x with the newest timestamp scans the list if ``min_time + slack of x's side < stream
time``, where the slack of a left record is after + grace and of a right one before + grace. The scan emits all that
have ``timestamp + slack of their side < stream time``; it stops once it has seen one of each side that may not be
emitted, and sets ``min_time`` to the last one it saw, emitted or not. before = after = 10, no grace, left join:

    left  A @0, B @5, C @8    all wait, min_time 0
    right x @11               A is emitted: 11 > 0 + 10. The scan saw B and C too: min_time 8
    right y @18               nothing: 18 is not beyond 8 + 10, though B's window closed after 15
    right z @19               B and C are emitted

Which scan emits a record depends on where the scan before it stopped, and so on all scans before. This is not an
aggregate, so this step processes event by event. An event is a row of a few numbers; everything else is relational.

Source: released Kafka Streams 4.x (KStreamKStreamJoin), KAFKA-10847. Held by
``tests/joins/stream_stream/test_recorded.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

SCAN, WAIT, MIN_TIME = 0, 1, 2
"""Kinds of events: x may scan; a record begins to wait; the ``min_time`` of earlier epochs."""

EVENT = {
    **{"partition": "INT", "at": "BIGINT", "kind": "INT", "side": "INT", "offset": "BIGINT", "timestamp": "BIGINT"},
    **{"slack": "BIGINT", "time": "BIGINT", "place": "BIGINT", "until": "BIGINT"},
    **{"by_side": "INT", "by_offset": "BIGINT"},
}
"""``at``: place of the event's record in the partition; ``time``: stream time of a scan; ``place``: a waiting record's
in the list; ``until``: place of the record that it finds a partner in; ``by_…``: what let it leave."""


def run_scans(events: DataFrame) -> DataFrame:
    """Events of waiting records: for emitted ones with ``at``, ``by_side``, ``by_offset`` of their scan.

    Records that find a partner are omitted, and each partition's last ``min_time`` is an event again.
    """
    return events.groupBy("partition").applyInArrow(_scans(), ", ".join(map(" ".join, EVENT.items())))


def _scans() -> Callable[[Any], Any]:
    # A nested function is pickled by value: Spark's workers need not have this package.
    def scans(table: Any) -> Any:
        from bisect import insort

        events = sorted(table.to_pylist(), key=lambda e: (e["at"], e["kind"]))
        waiting: list[dict[str, Any]] = []
        emitted: list[dict[str, Any]] = []
        min_time: int | None = None
        for e in events:
            if e["kind"] == MIN_TIME:
                min_time = e["timestamp"]
            elif e["kind"] == WAIT:
                insort(waiting, e, key=lambda w: w["place"])
                min_time = e["timestamp"] if min_time is None else min(min_time, e["timestamp"])
            elif min_time is not None and min_time + e["slack"] < e["time"]:
                min_time = None
                stay: list[dict[str, Any]] = []
                open_sides: set[int] = set()
                seen = 0
                for w in waiting:
                    if w["until"] is not None and w["until"] < e["at"]:
                        seen += 1
                        continue
                    min_time = w["timestamp"]
                    if len(open_sides) == 2:
                        break
                    seen += 1
                    if w["timestamp"] + w["slack"] < e["time"]:
                        emitted.append({**w, "at": e["at"], "by_side": e["side"], "by_offset": e["offset"]})
                    else:
                        open_sides.add(w["side"])
                        stay.append(w)
                waiting[:seen] = stay
        emitted += [w for w in waiting if w["until"] is None]
        if min_time is not None:
            nothing = dict.fromkeys(table.column_names)
            emitted.append({**nothing, "partition": events[0]["partition"], "kind": MIN_TIME, "timestamp": min_time})
        return type(table).from_pylist(emitted, schema=table.schema)

    return scans
