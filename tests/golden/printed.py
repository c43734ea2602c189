"""The documents' tables as they are printed: a line for each record, and what each type of join answers to it.

    step  side   key  record  ts  | inner | left        | outer
    3     left   k    A       3   |       | A-null      | A-null
    4     right  k    a       4   | A-a   | A-a         | A-a
    5     right  k    null    5   |       | null        | null

A row is `left-right`, and a tombstone is null; it stands after its key where that is not the record's own. Where a
join takes a foreign key from a value, it stands before a bar: `1|` points to the row 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from rivermeet.assets.replay.run import Way, replay

Row = tuple[int, str, str | None]
"""Place of the record in the input, key, value."""


@dataclass(frozen=True)
class Printed:
    """One table, and the profiles that have to give it."""

    id: str
    join: str
    profiles: Sequence[str]
    lines: str
    window: tuple[int, int, int] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def types(self) -> list[str]:
        """Types of join that have a column."""
        return [cell.strip() for cell in self._cells()[0][1:]]

    def _cells(self) -> list[list[str]]:
        # A space on both sides: `1|` is a value.
        return [f"{line.strip()} ".split(" | ") for line in self.lines.strip().splitlines()]

    def case(self, how: str, profile: str) -> dict[str, Any]:
        """The records as a case of `rivermeet replay`."""
        given: dict[str, Any] = {
            "name": f"{self.id}.{how} at {profile}",
            "join": self.join,
            "type": how,
            "semantics": profile,
            "input": [self._record(cells[0]) for cells in self._cells()[1:]],
            **self.options,
        }
        if self.window is not None:
            given["window"] = dict(zip(("before_ms", "after_ms", "grace_ms"), self.window, strict=True))
        return given

    def rows(self, how: str) -> list[Row]:
        """The rows that are printed for a type."""
        column = self.types.index(how) + 1
        found = []
        for place, cells in enumerate(self._cells()[1:]):
            own = cells[0].split()[2]
            for text in filter(None, (part.strip() for part in cells[column].split(","))):
                key, _, value = text.rpartition(": ")
                found.append((place, key or own, None if value == "null" else value))
        return found

    @staticmethod
    def _record(text: str) -> dict[str, Any]:
        _, side, key, value, ts = text.split()
        return {
            "side": side,
            "key": None if key == "null" else key,
            "value": None if value == "null" else value,
            "ts": int(ts),
        }


def check_printed(spark: SparkSession, tables: Sequence[Printed], way: Way, every_profile: bool = True) -> None:
    """Every type of every table answers what is printed, at its own profile or at each that has to give it."""
    asked = [
        (table.case(how, profile), table.rows(how))
        for table in tables
        for how in table.types
        for profile in (table.profiles if every_profile else table.profiles[:1])
    ]
    for (case, rows), answer in zip(asked, replay(spark, [case for case, _ in asked], "3.1", way), strict=True):
        assert "output" in answer, answer
        # A cached table prints when a row was flushed, not which record caused it: the commit is the same.
        every = case.get("commit_every", 1)
        found = [(row["in"] // every, row["key"], row["value"]) for row in answer["output"]]
        assert found == [(place // every, key, value) for place, key, value in rows], case["name"]
