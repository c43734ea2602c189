"""Operations that forward a record, and merge: a row is its record; a record without a row did not pass.

    filter n > 1     a {n: 2}    row, by itself
                     a {n: 1}    tombstone: it no longer passes `n > 1`
    to_table         - {n: 3}    no row: in the late table, because it has no key

Which record a row comes from is its trigger. Held by ``tests/joins/why/test_one_input.py``.
"""

from __future__ import annotations

from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow, named
from rivermeet.pipelines import Filter, Operation, SelectKey


def made_of(operation: Operation, row: ResultRow, trigger: Found, evidence: Evidence) -> Made:
    """The record that triggers it."""
    says: tuple[str, ...] = ()
    if isinstance(operation, Filter) and row.value is None and trigger.value is not None:
        says = (f"it does not pass `{operation.where}`",)
    return Made({trigger.side: trigger}, says)


def missing(operation: Operation, key: Key, evidence: Evidence) -> list[Reason]:
    """Why no record of the key is a live row."""
    if isinstance(operation, SelectKey):
        sql = ", ".join(f"`{column.sql}`" for column in operation.key.values())
        name = operation.input.name
        return [Reason("no-left", f"no record of '{name}' that was read gives the key {named(key)} by {sql}")]
    found: list[Reason] = []
    for side, node in operation.inputs.items():
        records = evidence.records(side, key)
        if not records:
            own = dict(zip(node.key, key.values(), strict=True))
            found.append(Reason(f"no-{side}", f"'{node.name}' has no record of {named(key)}", asked=(side, own)))
        for one in records[-1:] if node.is_table else records:
            found += _without_row(operation, node.name, one, evidence)
    return found


def _without_row(operation: Operation, name: str, one: Found, evidence: Evidence) -> list[Reason]:
    if one.order is None:
        return [Reason(f"{one.side}-not-read", f"it is in '{name}', and was not read yet: run the pipeline", (one,))]
    if one.value is None:
        return [Reason(f"{one.side}-deleted", f"its record in '{name}' is a tombstone", (one,))]
    if isinstance(operation, Filter):
        return [Reason("filtered", f"its record in '{name}' does not pass `{operation.where}`", (one,))]
    return []
