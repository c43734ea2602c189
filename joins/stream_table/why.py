"""stream ⋈ table: a row is its stream record, with what the table had then: a versioned one, at its time."""

from rivermeet.joins.why.lookups import of_absence, of_row, reads

__all__ = ["of_absence", "of_row", "reads"]
