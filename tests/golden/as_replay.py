"""The documents' traces as cases of ``rivermeet replay``, and what they must answer.

    s000.tt.v0102.inner    {"join": "table-table", "type": "inner", "semantics": "0.10.2", "input": […]}

Values become text: a joined value is ``left-right``, and where a join needs a foreign key it stands before a bar.
"""

import re
from typing import Any

from tests.golden.load import Case, cases

REPLAYED = ("stream-stream", "stream-table", "table-table", "fk-table-table", "one-to-many")
HISTORY = 1_000
"""Longer than any trace: a versioned table that forgets nothing."""

Answer = tuple[int, str, str | None]
"""Place of the record in the input, key, value."""


def replayed(every_profile: bool) -> list[tuple[dict[str, Any], list[Answer]]]:
    """Replay case and expected rows of every trace, at its own profile or at every one that has to give it."""
    return [
        (replay_case(case, profile), answers(case))
        for case in cases()
        if case.join in REPLAYED
        for profile in (case.profiles if every_profile else case.profiles[:1])
    ]


def replay_case(case: Case, profile: str) -> dict[str, Any]:
    """A trace in replay's format."""
    given: dict[str, Any] = {
        "name": f"{case.id} at {profile}",
        "join": case.join,
        "type": case.how,
        "semantics": profile,
        "input": [
            {"side": r.side, "key": str(r.key), "value": written(case, r.side, r.value), "ts": r.timestamp}
            for r in case.records
        ],
    }
    if case.window is not None:
        w = case.window
        given["window"] = {"before_ms": w.before, "after_ms": w.after, "grace_ms": w.grace}
    if case.id.endswith("sql_reading"):
        given["right_versioned_ms"] = HISTORY
    if case.flush_after_steps:
        # The trace flushes after 6, 12 and the last of 16: every six records, and at the end.
        given |= {"cache": True, "commit_every": case.flush_after_steps[0]}
    return given


def written(case: Case, side: str, value: Any) -> str | None:
    """A value as text; with its foreign key before a bar, where the join takes one from this side."""
    if value is None:
        return None
    if case.join == "fk-table-table" and side == "left":
        return f"{value}|"
    if case.join == "one-to-many" and side == "right":
        found = re.match(r"\[(\w+),", value)
        assert found is not None, value
        return value if found[1] == "null" else f"{found[1]}|{value}"
    return str(value)


def answers(case: Case) -> list[Answer]:
    """What a trace prints, with the places that its steps have in the input."""
    at = {r.position: place for place, r in enumerate(case.records)}
    return [(at[e.at_step], str(e.key), joined(case, e.value)) for e in case.expected]


def joined(case: Case, value: Any) -> str | None:
    """A row's value as the replay joins it."""
    if value is None:
        return None
    left, right = (written(case, side, part) for side, part in zip(("left", "right"), value, strict=True))
    return f"{'null' if left is None else left}-{'null' if right is None else right}"
