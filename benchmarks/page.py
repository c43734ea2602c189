"""The page of the stored runs: seconds by phase from run to run, and each peer's epoch beside the newest run's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import altair as alt

from benchmarks.side_by_side import ours
from benchmarks.stored import ALL_PHASES, Line, alike, middle, subject

RUNS = 20


def write_page(path: Path, lines: Sequence[Line]) -> None:
    """Write one page that needs no network.

    Parameters
    ----------
    lines
        As they are stored; the newest runs of each workload and size are drawn.
    """
    charts: list[alt.Chart] = []
    mine = [line for line in lines if line["peer"] == "Rivermeet"]
    newest = {subject(line): line for line in mine}
    for line in sorted(newest.values(), key=_name):
        runs = alike(mine, line)[-RUNS:]
        charts += [_by_phase(_name(line), runs), _beside(_name(line), line, lines)]
    page = alt.vconcat(*charts).resolve_scale(color="independent").configure_axis(labelLimit=300)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.save(path, format="html", inline=True)


def _name(line: Line) -> str:
    epochs, hot = len(line["epochs"]), line.get("size", {}).get("hot")
    parts = [line["workload"], f"{line['rows_in']:,} records", "1 epoch" if epochs == 1 else f"{epochs} epochs"]
    parts += [f"{hot:.0%} of one key"] if hot is not None else []
    parts += ["net changes"] if line.get("cache") else []
    return ", ".join(parts)


def _by_phase(title: str, runs: Sequence[Line]) -> alt.Chart:
    values = [
        {"run": _when(line), "phase": phase, "seconds": seconds, "place": place}
        for line in runs
        for place, (phase, seconds) in enumerate(middle(line).items())
    ]
    return (
        alt.Chart(alt.Data(values=values), title=f"{title}: the middle epoch of each run", width=600)
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="seconds"),
            y=alt.Y("run:N", title=None),
            color=alt.Color("phase:N", sort=list(ALL_PHASES), title=None),
            order="place:Q",
            tooltip=["run:N", "phase:N", "seconds:Q"],
        )
    )


def _beside(title: str, newest: Line, lines: Sequence[Line]) -> alt.Chart:
    peers = [line for line in lines if line.get("at") == newest["at"] and line["peer"] != "Rivermeet"]
    peers = [line for line in peers if line["workload"] == newest["workload"] and "absent" not in line]
    values = [
        {"peer": line["peer"], "what": what, "seconds": line[name]}
        for line in (*ours(newest), *peers)
        for what, name in (("backlog", "seconds_initial"), ("epoch", "seconds_per_epoch"))
        if line[name]
    ]
    return (
        alt.Chart(alt.Data(values=values), title=f"{title}: beside the others, {_when(newest)}", width=600)
        .mark_point(filled=True, size=90)
        .encode(
            x=alt.X("seconds:Q", title="seconds").scale(type="log"),
            y=alt.Y("peer:N", title=None, sort=None),
            color=alt.Color("what:N", title=None),
            tooltip=["peer:N", "what:N", "seconds:Q"],
        )
    )


def _when(line: Line) -> str:
    return datetime.fromtimestamp(line["at"], UTC).strftime("%Y-%m-%d %H:%M:%S")
