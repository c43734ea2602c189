"""Relations that are written out as SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rivermeet.expectations.results import Relation
from rivermeet.infra.epochs.plan import EpochPlan


def lines(columns: Mapping[str, str], rows: Iterable[tuple[object, ...]]) -> Relation:
    """A relation of a few values, each written as SQL."""
    kinds = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in columns.items())
    values = ", ".join(f"({', '.join(map(str, row))})" for row in rows)
    if values:
        return Relation(f"SELECT {kinds} FROM VALUES {values} AS t({', '.join(columns)})")
    nothing = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in columns.items())
    return Relation(f"SELECT {nothing} WHERE false")


def bounds(plan: EpochPlan) -> Relation:
    """Where the epoch's offsets must start."""
    starts = [(partition, end + 1) for partition, end in plan.ends.items()]
    return lines({"partition": "INT", "first_offset": "BIGINT"}, starts)


def times(plan: EpochPlan) -> Relation:
    """Stream time (ms) before the epoch."""
    return lines({"partition": "INT", "stream_time": "BIGINT"}, plan.stream_time.items())
