"""What made a row, and why there is none: a family's reference replayed, in the words of its ``why`` module.

reference    row (k, x) by rule "no-right", left k at 3        for each row the rule, and its records
words        "it points to g: 'planes' has no record of g"     for each rule a sentence, from the records there are
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from rivermeet.joins.why.evidence import Evidence, Found, Key, Made, Reason, ResultRow, Unknown
from rivermeet.joins.why.replay import Met, Replay, replay
from rivermeet.joins.why.words import find_disagreement, report_unknown
from rivermeet.pipelines import Operation
from rivermeet.pipelines.family import family_of

NOT_SURE = "not sure: replayed by themselves, the records of its key give no such row"


class Words(Protocol):
    """A family's ``why`` module.

    Attributes
    ----------
    reads
        Side to the key whose records decide of a row of a key, and, where it is given, of a trigger; nothing of a
        join's side that is pointed to.
    of_row
        Why a row lacks a side, or ended.
    of_absence
        Why a key has no row.
    """

    reads: Callable[[Any, Key, Found | None], Mapping[str, Key]]
    of_row: Callable[[Any, Met, Replay], Sequence[Reason]]
    of_absence: Callable[[Any, Key, Replay], Sequence[Reason]]


def find_origins(operation: Operation, row: ResultRow, evidence: Evidence) -> Made:
    """The records of a row."""
    trigger = row.trigger
    if family_of(operation).reference is None:
        return Made({trigger.side: trigger}, (f"what else a {operation.family} made it of is not explained",))
    # The record of a null key may be in any partition; its row is in the same.
    named = {side: at for side, at in (("left", row.left_offset), ("right", row.right_offset)) if at is not None}
    known = {side: evidence.record(side, row.partition, at) for side, at in named.items()}
    words, also = _words_of(operation), [trigger, *(one for one in known.values() if one is not None)]
    keys = {} if row.key is None else words.reads(operation, row.key, trigger)
    replayed = timed = replay(operation, keys, evidence, also)
    alike = [(timed, found) for found in timed.alike(row)]
    if not alike:
        replayed = replay(operation, keys, evidence, also, clocks=False)
        alike = [(replayed, found) for found in replayed.alike(row)]
        alike += [(timed, found) for found in timed.find_released(row)]
    if not alike and not known and operation.joins_sides:
        unsure = next(
            (report_unknown(key).says for key in replayed.points.values() if isinstance(key, Unknown)), NOT_SURE
        )
        return Made({trigger.side: trigger}, (unsure,))
    may_be = [(by, known or by.parts(found), found.rule, found.trigger) for by, found in alike]
    may_be = may_be or [(replayed, known or {trigger.side: trigger}, "joined", math.inf)]
    doubts = [
        find_disagreement(operation, row.value, {"left": None, "right": None} | parts) for _, parts, _, _ in may_be
    ]
    best = doubts.index(None) if None in doubts else 0
    replayed, parts, rule, at = may_be[best]
    met = Met(row.key, rule, parts.get("left"), parts.get("right"), trigger, at, row.value is None)
    said = words.of_row(operation, met, replayed)
    says = [reason.says for reason in said] + [doubt for doubt in doubts[best : best + 1] if doubt is not None]
    asked = tuple(reason.asked for reason in said if reason.asked is not None)
    return Made(met.parts if operation.joins_sides else parts, tuple(says), asked)


def explain_absence(operation: Operation, key: Key, evidence: Evidence) -> list[Reason]:
    """Why a key has no row."""
    if family_of(operation).reference is None:
        return [Reason("unexplained", f"why a {operation.family} has no row of a key is not explained")]
    words = _words_of(operation)
    return [*words.of_absence(operation, key, replay(operation, words.reads(operation, key, None), evidence))]


def _words_of(operation: Operation) -> Words:
    return cast(Words, import_module(family_of(operation).why))
