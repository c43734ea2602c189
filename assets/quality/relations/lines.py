"""Relations and conditions that are written out as SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from expectations.results import Relation
from infra.epochs.offsets import WRITTEN_OUT, between_sql
from infra.epochs.plan import EpochPlan, Offsets


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


def between(after: Mapping[int, int], upto: Offsets) -> str:
    """SQL for whether a record's offset is in ``(after, upto]``: of many partitions the bounds are looked up."""
    new = {int(p): int(end) for p, end in upto.items() if end > after.get(p, -1)}
    if len(new) <= WRITTEN_OUT:
        return between_sql(after, upto)
    start = {p: int(after.get(p, -1)) for p in new}
    return f"offset > {_looked_up(start)} AND offset <= {_looked_up(new)}"


def any_of(conditions: Iterable[str]) -> str:
    """SQL for whether one of the conditions holds."""
    return " OR ".join(conditions) or "false"


def _looked_up(values: Mapping[int, int]) -> str:
    by_place = (values.get(p) for p in range(max(values) + 1))
    return f"get(array({', '.join('CAST(NULL AS BIGINT)' if v is None else f'{v}L' for v in by_place)}), partition)"
