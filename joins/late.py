"""The late table: every record that an operator dropped, in one schema for all families, with the reason in words.

| column | what |
|---|---|
| side, partition, offset | place of the record in its input |
| key, value, timestamp | the record itself; the value as JSON, so that inputs of any type are one table |
| stream_time, close | the two numbers (ms) that the reason compares; null if it does not concern a window |
| reason | why it was dropped |

    left  a @3      closed at 15 ms when stream time was 20 ms
    left  - @4      no key
    left  a @-7     before 1970, where no window is

Each family has its own rule for dropping records: ``joins/stream_stream/profile_3_1.py``,
``joins/stream_stream/window_store.py``, ``joins/aggregates/windowed.py``, ``joins/stateless/to_table.py``, and look-ups
with a null key that give no row. Held by ``tests/expectations/test_late_share.py``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def past_close(records: DataFrame, side: Column, value: Column, stream_time: Column, close: Column) -> DataFrame:
    """Rows for records whose last window had closed when stream time was ``stream_time``."""
    # The function takes numbers as they are: over Spark Connect a cast to STRING names a collation, which Delta writes.
    reason = F.format_string("closed at %d ms when stream time was %d ms", close, stream_time)
    return _rows(records, side, value, reason, stream_time, close)


def without_key(records: DataFrame, side: Column, value: Column) -> DataFrame:
    """Rows for records that are dropped because they have no key."""
    return _rows(records, side, value, F.lit("no key"))


def before_1970(records: DataFrame, side: Column, value: Column) -> DataFrame:
    """Rows for records outside of all windows, because windows start at 0."""
    return _rows(records, side, value, F.lit("before 1970, where no window is"))


def _rows(records: DataFrame, side: Column, value: Column, reason: Column, *times: Column) -> DataFrame:
    stream_time, close = times or (F.lit(None).cast("bigint"),) * 2
    own = (side.alias("side"), "key", value.alias("value"), "timestamp", "partition", "offset")
    return records.select(*own, stream_time.alias("stream_time"), close.alias("close"), reason.alias("reason"))
