"""stream ⋈ global table: a row is its stream record, with what the table had of the key that it looks up.

    right f x     in the same epoch as
    left  k f     row (f, x): an epoch's records of the table are loaded before its facts

With ``bootstrap="timestamp"`` each record sees the table as of its place in the order.
"""

from rivermeet.joins.stream_table.why import of_absence, of_row, reads

__all__ = ["of_absence", "of_row", "reads"]
