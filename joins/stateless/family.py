"""Operations that forward a record, and merge, registered."""

from __future__ import annotations

from rivermeet.joins.equal_columns import own
from rivermeet.pipelines import Filter, MapValues, Merge, SelectKey, ToStream, ToTable
from rivermeet.pipelines.family import Family, Needed

REFERENCE = "rivermeet.joins.stateless.reference"
WHY = "rivermeet.joins.stateless.why"


def need_rows(operation: Filter) -> Needed:
    """Rows of a table whose key is that of a record."""
    return {"left": [own("left", operation.input.key)]}


FILTER = Family(
    declaration=Filter,
    operators={"3.1": "rivermeet.joins.stateless.filter"},
    reference=REFERENCE,
    why=WHY,
    needed=need_rows,
)
MAP_VALUES = Family(
    declaration=MapValues, operators={"3.1": "rivermeet.joins.stateless.map_values"}, reference=REFERENCE, why=WHY
)
SELECT_KEY = Family(
    declaration=SelectKey, operators={"3.1": "rivermeet.joins.stateless.select_key"}, reference=REFERENCE, why=WHY
)
TO_TABLE = Family(
    declaration=ToTable, operators={"3.1": "rivermeet.joins.stateless.to_table"}, reference=REFERENCE, why=WHY
)
TO_STREAM = Family(
    declaration=ToStream, operators={"3.1": "rivermeet.joins.stateless.to_table"}, reference=REFERENCE, why=WHY
)
MERGE = Family(declaration=Merge, operators={"3.1": "rivermeet.joins.stateless.merge"}, reference=REFERENCE, why=WHY)
