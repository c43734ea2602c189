"""The stored runs: one JSON line a run and peer, and the run that the newest one is compared with."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rivermeet.assets.bench.run import PHASES
from rivermeet.infra.settings import Settings

Line = Mapping[str, Any]
ALL_PHASES = ("ingest", *PHASES, "checks")


def results_file(settings: Settings, what: str = "results") -> Path:
    """The file of a benchmark's lines, in the home."""
    return settings.home / "bench" / f"{what}.jsonl"


def store(path: Path, lines: Iterable[Line]) -> None:
    """Add lines to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def read_lines(path: Path) -> Sequence[Line]:
    """All lines, the oldest first."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def size_of(line: Line) -> Mapping[str, Any]:
    """A line's size; lines of before ``pieces`` and ``recent`` loaded all at once, and changed any order."""
    return {"pieces": 1, "recent": None, **line.get("size", {})}


def subject(line: Line) -> Hashable:
    """What a line has measured: of whom, on which records, in which cut."""
    size = tuple(sorted(size_of(line).items()))
    return line["peer"], line["workload"], size, len(line.get("epochs", ())), line.get("cache", False)


def alike(lines: Iterable[Line], line: Line) -> Sequence[Line]:
    """The lines that have measured the same as a line of Rivermeet's."""
    return [one for one in lines if subject(one) == subject(line)]


def middle(line: Line) -> Mapping[str, float]:
    """Seconds by phase of the middle epoch of changes; of the first ones where there are no others."""
    _, epochs = backlog_and_changes(line)
    return {phase: median(epoch.get(phase, 0.0) for epoch in epochs) for phase in ALL_PHASES}


def backlog_and_changes(line: Line) -> tuple[Sequence[Line], Sequence[Line]]:
    """The first epochs of a line, and those after them; twice the first where there are no others."""
    epochs, pieces = line["epochs"], size_of(line)["pieces"]
    return epochs[:pieces], epochs[pieces:] or epochs
