"""Operations that forward a record, and merge: a row is its record; a record without a row did not pass.

    filter n > 1     a {n: 2}    row, by itself
                     a {n: 1}    tombstone: it no longer passes `n > 1`
    to_table         - {n: 3}    no row: in the late table, because it has no key

Which record a row comes from is its trigger. Held by ``tests/joins/why/test_one_input.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from rivermeet.joins.why.evidence import Found, Key, Reason, show_key
from rivermeet.joins.why.replay import Met, Replay
from rivermeet.joins.why.words import explain_by_rule, report_no_record
from rivermeet.pipelines import Filter, Operation, SelectKey, ToTable


def reads(operation: Operation, key: Key, trigger: Found | None) -> Mapping[str, Key]:
    """Of a row nothing but its trigger; else the key, and of one that an expression gives no record is known."""
    if trigger is not None or isinstance(operation, SelectKey):
        return {}
    return {side: dict(zip(node.key, key.values(), strict=True)) for side, node in operation.inputs.items()}


def of_row(operation: Operation, met: Met, replayed: Replay) -> list[Reason]:
    """Why a table's row ended."""
    if isinstance(operation, Filter) and met.is_end and met.trigger.value is not None:
        return [Reason("filtered", f"it does not pass `{operation.where}`")]
    return []


def of_absence(operation: Operation, key: Key, replayed: Replay) -> list[Reason]:
    """Why no record of the key is a live row."""
    if isinstance(operation, SelectKey):
        sql = ", ".join(f"`{column.sql}`" for column in operation.key.values())
        name = operation.input.name
        return [Reason("no-left", f"no record of '{name}' that was read gives the key {show_key(key)} by {sql}")]
    found: list[Reason] = []
    for side, own in reads(operation, key, None).items():
        records = replayed.of_key(side, own)
        if not records:
            found.append(report_no_record(replayed, side, own))
        # Where the result is a table, a record before the last one may have had a row, and has it no longer.
        decides = operation.inputs[side].is_table or isinstance(operation, ToTable)
        for one in records[-1:] if decides else records:
            found.append(_without_row(operation, one, replayed))
    return found


def _without_row(operation: Operation, one: Found, replayed: Replay) -> Reason:
    name, note = operation.inputs[one.side].name, replayed.rule(one)
    if one.order is not None and one.value is None:
        return Reason(f"{one.side}-deleted", f"its record in '{name}' is a tombstone", (one,))
    if note is not None and isinstance(operation, Filter):
        return Reason("filtered", f"its record in '{name}' does not pass `{operation.where}`", (one,))
    return explain_by_rule(replayed, one)
