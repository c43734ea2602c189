"""What families that read tables share: the record of a side at a moment, and why a side had none.

planes has no N1 at all        "'planes' has no record of tail_number=N1"
N1 came after the look-up      "'planes' had no tail_number=N1 yet: it came 2 d later in event time"
N1 was deleted before          "tail_number=N1 was deleted from 'planes' before"
N1 waits to be read            "… is there, and was not joined yet: run the pipeline"
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rivermeet.joins.why.evidence import Evidence, Found, Key, Order, Reason, Unknown, is_there, named, standing, unread
from rivermeet.pipelines import Join, Node


def history(node: Node) -> int | None:
    """How far back (ms) a versioned table knows its rows; None of a plain one."""
    return getattr(node, "history", None)


def seen_at(join: Join, trigger: Found) -> Order:
    """The place up to which a row's join has seen its inputs: its trigger's, or the end of a cache's commit."""
    assert trigger.order is not None
    waits = getattr(join, "cache", None) is not None and join.semantics != "3.1"
    return (trigger.order[0], math.inf) if waits else trigger.order


def nothing_there(node: Node, side: str, key: Key, records: Sequence[Found], at: Order | None) -> Reason:
    """Why a table has no row of a key at a place in the order; None is now."""
    now = (math.inf,) if at is None else at
    last = standing(records, now, history(node))
    if last is not None:
        gone = f"{named(key)} was deleted from '{node.name}'" + ("" if at is None else " before")
        return Reason(f"{side}-deleted", gone, (last,))
    later = [one for one in records if one.order is not None and is_there(one)]
    if later:
        return Reason(f"{side}-came-later", f"'{node.name}' had no {named(key)} yet: it came later", (later[0],))
    waiting = [one for one in unread(records) if is_there(one)]
    if waiting:
        says = f"{named(key)} is in '{node.name}', and was not joined yet: run the pipeline"
        return Reason(f"{side}-not-read", says, (waiting[-1],))
    return Reason(f"no-{side}", f"'{node.name}' has no record of {named(key)}", asked=(side, key))


def unknown(side: str, asked: Unknown) -> Reason:
    """That nobody here knows which key an expression gives."""
    says = f"which key of the {side} table `{asked.sql}` gives is known to Spark alone: add --engine"
    return Reason("unknown", says)


def pointers(evidence: Evidence, mapper: dict[str, str], records: Sequence[Found]) -> list[str]:
    """The keys that records pointed to one after the other, each once in a row."""
    found: list[str] = []
    for one in records:
        if one.value is None:
            text = "deleted"
        else:
            key = evidence.mapped(mapper, one)
            text = "?" if isinstance(key, Unknown) else "null" if key is None else named(key)
        if not found or found[-1] != text:
            found.append(text)
    return found
