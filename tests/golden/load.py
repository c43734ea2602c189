"""The printed and derived example tables of the documents, as typed cases.

    for case in cases(join="fk-table-table", profile="3.1"):
        case.records    what to process, `position` = the table's step
        case.expected   what each step has to produce

The JSON files have the format `golden/1`: ids, provenance and section say where in which document a
table stands. `PROFILES` is the decision which profiles have to reproduce it, and why.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rivermeet.joins.reference.records import Record

ALWAYS = ("3.1", "kafka-4", "0.10.2")
PROFILES: dict[str, tuple[tuple[str, ...], str]] = {
    "s000.ss.v31.": (("3.1",), "printed, or following from the printed rule"),
    "s000.ss.v31.expiry_kafka_code_reading": (("kafka-4",), "a row leaves one ms later than printed"),
    "s000.ss.v31.legacy_window_api": (("0.10.2",), "the deprecated window keeps its eager rows"),
    "s000.ss.v0102.": (("0.10.2",), "printed"),
    "s000.st.v0102.": (ALWAYS, "printed; nothing in later releases changes it"),
    "s000.tt.v0102.": (ALWAYS, "printed; nothing in later releases changes it"),
    "s000.tt.cache.": (("3.1",), "the cache is on the result; Kafka's also caches the inputs"),
    "s000.sync.": (ALWAYS, "look-ups see the present state"),
    "s000.sync.st.table_early_sql_reading": (("3.1", "kafka-4"), "the temporal reading: a versioned table"),
    "s000.fk.": (("3.1", "kafka-4"), "printed; step 5 read as a tombstone, as KIP-213's text has it"),
    "s001.fk.": (("3.1", "kafka-4"), "printed; the same steps as seed 000"),
    "s001.one_to_many.": (("3.1",), "printed; a proposal that was not released"),
    "s000.ss.v0100.": (("0.10.0",), "printed"),
    "s000.st.v0100.": (("0.10.0",), "printed"),
    "s000.tt.v0100.": (("0.10.0",), "printed"),
    "s002.ss.current.": (("0.10.0",), "printed"),
    "s002.st.current.": (("0.10.0",), "printed"),
    "s002.tt.current.": (("0.10.0",), "printed"),
    "s002.tt.current_damaged.": (("0.10.0",), "printed as far as it is legible"),
    "s002.ss.suggested.": (("0.10.2",), "printed"),
    "s002.st.suggested.": (ALWAYS, "printed; nothing in later releases changes it"),
    "s002.tt.suggested.": (ALWAYS, "follows from the printed rules"),
    "s002.window.asymmetric_joinwindows_doc": (
        ("3.1", "kafka-4", "0.10.2"),
        "before and after are those of a right record around a left one, as released; the tables "
        "that documents print are symmetric and leave the choice open",
    ),
    "s002.window.asymmetric_seed_sql": ((), "the mirror image: swap before and after to get it"),
    "s003.wtable.aggregate": (("3.1",), "follows from the page's words; the rows are invented"),
    "s004.invoice.": (("3.1",), "follows from KIP-99's rules; the rows are invented"),
}
"""Start of a trace's id to the profiles that have to give it, its own first; the longest start decides."""


def decision(trace: str) -> tuple[tuple[str, ...], str]:
    """Profiles of a trace, and why."""
    starts = [start for start in PROFILES if trace.startswith(start)]
    return PROFILES[max(starts, key=len)]


@dataclass(frozen=True)
class Window:
    before: int
    after: int
    grace: int


@dataclass(frozen=True)
class Expected:
    """A row of a step; value is (left, right), a dict where a table names columns, or None."""

    at_step: int
    key: Any
    value: Any


@dataclass(frozen=True)
class Case:
    """One trace. `initial_state` holds records at positions <= 0 whose results nobody prints."""

    id: str
    provenance: str
    section: str
    join: str
    how: str
    profiles: tuple[str, ...]
    reason: str
    window: Window | None
    inputs: tuple[Record, ...]
    initial_state: tuple[Record, ...]
    expected: tuple[Expected, ...]
    pending_at_end: tuple[tuple[str, Any, Any, int], ...]
    flush_after_steps: tuple[int, ...] = ()

    @property
    def records(self) -> list[Record]:
        """Initial state and inputs, in the order of processing."""
        return [*self.initial_state, *self.inputs]


def cases(join: str | None = None, profile: str | None = None) -> list[Case]:
    """All traces, or those of a join (`stream-stream`, `fk-table-table`, `global`) and profile."""
    return [c for c in _all_cases() if join in (None, c.join) and (profile is None or profile in c.profiles)]


def tables() -> list[dict[str, Any]]:
    """Every table as it is stored, also rules, snapshots and interleavings."""
    files = sorted(Path(__file__).parent.glob("seed_*.json"))
    return [table for file in files for table in json.loads(file.read_text("utf-8"))["tables"]]


@cache
def _all_cases() -> list[Case]:
    return [_case(table) for table in tables() if table["kind"] == "trace"]


def _case(table: dict[str, Any]) -> Case:
    profiles, reason = decision(table["id"])
    before_step_one = [
        {"side": side, "ts": 0, **row} for side, rows in table.get("initial_state", {}).items() for row in rows
    ]
    first = 1 - len(before_step_one)
    records = _records(before_step_one + table["inputs"], first)
    return Case(
        id=table["id"],
        provenance=table["provenance"],
        section=table["section"],
        join=table["join"],
        how=table["type"],
        profiles=profiles,
        reason=reason,
        window=_window(table["window"]),
        inputs=tuple(r for r in records if r.position > 0),
        initial_state=tuple(r for r in records if r.position <= 0),
        expected=tuple(Expected(row["at_step"], row["key"], _value(row["value"])) for row in table["expected"]),
        pending_at_end=tuple((r["side"], r["key"], r["value"], r["ts"]) for r in table.get("pending_at_end", [])),
        flush_after_steps=tuple(table.get("flush_after_steps", ())),
    )


def _window(printed: dict[str, Any] | None) -> Window | None:
    if printed is None or "tumbling" in printed:
        return None
    # The tables of old releases say only that all records are in one window.
    before, after = printed.get("before", 1_000), printed.get("after", 1_000)
    # A table that prints no grace does not depend on it.
    return Window(before, after, printed.get("grace") or 0)


def _records(rows: list[dict[str, Any]], first: int) -> list[Record]:
    offsets: dict[str, int] = {}
    records: list[Record] = []
    for position, row in enumerate(rows, first):
        offset = offsets.get(row["side"], 0)
        offsets[row["side"]] = offset + 1
        records.append(
            Record(
                row["side"], row["key"], row["value"], position if row["ts"] is None else row["ts"], 0, offset, position
            )
        )
    return records


def _value(value: Any) -> Any:
    if not isinstance(value, dict) or set(value) != {"left", "right"}:
        return value
    return (value["left"], value["right"])
