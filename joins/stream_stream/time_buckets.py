"""Time buckets, so that records of one key are compared only with near ones and not with all others of that key.

A condition on times cannot be a join key: within a key every record is compared with every other, which for one hot
key grows with the square of its records. So both sides have buckets, and join by these too. One side's record is in
one bucket; the other's has each bucket that its reach touches, at most two, because no reach is longer than a
bucket. A pair meets in exactly one bucket, that of the first side's record.

    reach 10 (before 4, after 6), bucket 40      right @38 is in 0, @41 in 40
    left  @20 reaches 16 to 26: bucket 0         left  @37 reaches 33 to 43: buckets 0 and 40

Held by ``tests/joins/stream_stream/test_time_buckets.py``.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

REACHES = 4
"""Reaches per bucket: one record in four has two buckets, and is compared with records within four reaches."""
_WIDEST = 2**60


def width(reach: Column) -> Column:
    """The width (ms) of buckets for a reach of ``reach`` ms from end to end; NULL for a single bucket."""
    return F.when(reach <= _WIDEST, F.greatest(reach, F.lit(1)) * REACHES)


def lies_in(timestamp: Column, width: Column) -> Column:
    """Start of the bucket of a time (ms)."""
    return F.coalesce(timestamp - F.pmod(timestamp, width), F.lit(0))


def list_buckets(earliest: Column, latest: Column, width: Column) -> Column:
    """ARRAY of the buckets between two times, both included: one or two."""
    return F.array_distinct(F.array(lies_in(earliest, width), lies_in(latest, width)))
