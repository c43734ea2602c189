"""The printed and derived example tables of the documents, as typed cases.

    for case in cases(join="fk-table-table", profile="3.1"):
        case.records    what to process, `position` = the table's step
        case.expected   what each step has to produce

The JSON files are cut from the research repository's golden data (format `golden/1`): ids,
provenance and section say where in which document a table stands. `PROFILES` is the decision which
of them the default profile has to reproduce, and why.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.reference.records import Record

PROFILES: dict[str, tuple[str | None, str]] = {
    "s000.ss.v31.inner": ("3.1", "printed"),
    "s000.ss.v31.left": ("3.1", "printed"),
    "s000.ss.v31.outer": ("3.1", "printed"),
    "s000.ss.v31.expiry_seed_reading": ("3.1", "the only reading that gives the printed tables"),
    "s000.ss.v31.expiry_kafka_code_reading": ("kafka-4", "a row leaves one ms later than printed"),
    "s000.ss.v31.no_grace": ("3.1", "follows from the printed rule"),
    "s000.ss.v31.legacy_window_api": ("0.10.2", "the deprecated window keeps its eager rows"),
    "s000.ss.v31.window_edge": ("3.1", "follows from both bounds being inclusive"),
    "s002.window.asymmetric_joinwindows_doc": (
        "3.1",
        "before and after are those of a right record around a left one, as released; the tables "
        "that documents print are symmetric and leave the choice open",
    ),
    "s002.window.asymmetric_seed_sql": (None, "the mirror image: swap before and after to get it"),
    "s000.fk.inner": ("3.1", "printed"),
    "s000.fk.left": ("3.1", "printed; step 5 read as a tombstone, as KIP-213's text has it"),
    "s001.fk.inner": ("3.1", "printed; the same steps as seed 000"),
    "s001.fk.left": ("3.1", "printed; the same steps as seed 000"),
    "s004.invoice.inner": ("3.1", "follows from KIP-99's rules; the rows are invented"),
    "s004.invoice.left": ("3.1", "follows from KIP-99's rules; the rows are invented"),
}


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
    profile: str | None
    reason: str
    window: Window | None
    inputs: tuple[Record, ...]
    initial_state: tuple[Record, ...]
    expected: tuple[Expected, ...]
    pending_at_end: tuple[tuple[str, Any, Any, int], ...]

    @property
    def records(self) -> list[Record]:
        """Initial state and inputs, in the order of processing."""
        return [*self.initial_state, *self.inputs]


def cases(join: str | None = None, profile: str | None = None) -> list[Case]:
    """All traces, or those of a join (`stream-stream`, `fk-table-table`, `global`) and profile."""
    return [case for case in _all_cases() if join in (None, case.join) and profile in (None, case.profile)]


def tables() -> list[dict[str, Any]]:
    """Every table as it is stored, also rules, snapshots and interleavings."""
    files = sorted(Path(__file__).parent.glob("seed_*.json"))
    return [table for file in files for table in json.loads(file.read_text("utf-8"))["tables"]]


@cache
def _all_cases() -> list[Case]:
    return [_case(table) for table in tables() if table["kind"] == "trace"]


def _case(table: dict[str, Any]) -> Case:
    profile, reason = PROFILES[table["id"]]
    before_step_one = [
        {"side": side, "ts": 0, **row} for side, rows in table.get("initial_state", {}).items() for row in rows
    ]
    first = 1 - len(before_step_one)
    records = _records(before_step_one + table["inputs"], first)
    window = table["window"]
    return Case(
        id=table["id"],
        provenance=table["provenance"],
        section=table["section"],
        join=table["join"],
        how=table["type"],
        profile=profile,
        reason=reason,
        # A table that prints no grace does not depend on it.
        window=window and Window(window["before"], window["after"], window["grace"] or 0),
        inputs=tuple(r for r in records if r.position > 0),
        initial_state=tuple(r for r in records if r.position <= 0),
        expected=tuple(Expected(row["at_step"], row["key"], _value(row["value"])) for row in table["expected"]),
        pending_at_end=tuple((r["side"], r["key"], r["value"], r["ts"]) for r in table.get("pending_at_end", [])),
    )


def _records(rows: list[dict[str, Any]], first: int) -> list[Record]:
    offsets: dict[str, int] = {}
    records: list[Record] = []
    for position, row in enumerate(rows, first):
        offset = offsets.get(row["side"], 0)
        offsets[row["side"]] = offset + 1
        records.append(Record(row["side"], row["key"], row["value"], row["ts"], 0, offset, position))
    return records


def _value(value: dict[str, Any] | None) -> Any:
    if value is None or set(value) != {"left", "right"}:
        return value
    return (value["left"], value["right"])
