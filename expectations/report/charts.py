"""The charts of the report: Vega-Lite drawn to SVG when the page is written, so that the page needs no library.

Colours are the page's own variables, which follow light and dark. All charts of a node have its epochs as their axis,
also those without a value, so gaps show. Each mark is labelled with its numbers, for screen readers and hovering. A
chart contains only numbers and the words of this file, no text from data.
Why: ``docs/decisions/report-charts.md``. Held by ``tests/expectations/test_report_page.py``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from rivermeet.expectations.report.checks import Cell
from rivermeet.expectations.report.flow import PHASES, Flow, Latency
from rivermeet.pipelines.extras import ExtraMissingError, require

COLOURS: Mapping[str, str] = {
    "left": "var(--s1)",
    "right": "var(--s2)",
    "other inputs": "var(--s3)",
    "files": "var(--s1)",
    "rows": "var(--s4)",
    "matched": "var(--s4)",
    "one-sided": "var(--s5)",
    "retracted": "var(--s6)",
    "late": "var(--warning)",
    "dead": "var(--critical)",
    **{phase: f"var(--p{place})" for place, phase in enumerate(PHASES, 1)},
}
"""What is drawn, and its colour on the page."""
_LOOKS = {"passed": "var(--quiet)", "info": "var(--info)", "warning": "var(--warning)", "critical": "var(--critical)"}
_UNITS = {"years": 31_557_600_000, "days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000, "ms": 1}
_HEIGHT, _EMPTY = 34, 10
_PLACE = re.compile(r' (?:d|transform)="[^"]*"')
Values = Sequence[Mapping[str, Any]]


def violations_chart(cells: Sequence[Cell]) -> str:
    """Violations above the rows that were checked, on one axis of epochs; ``?`` where it was not evaluated."""
    values = [
        {"epoch": cell.epoch, "look": cell.look} | {name: cell.found.get(name) for name in ("violations", "checked")}
        for cell in cells
    ]
    looks = {"domain": list(_LOOKS), "range": list(_LOOKS.values())}
    found = _bars(values, "violations", colour={"field": "look", "scale": looks, "legend": None})
    unknown = {
        "transform": [{"filter": "datum.look === 'not evaluated'"}],
        "mark": {"type": "text", "text": "?", "dy": -6, "fontWeight": 700, "color": "var(--ink)"},
        "encoding": {"x": _across(_epochs(values), None), "y": {"datum": 0}},
    }
    top = {key: found.pop(key) for key in ("title", "width", "height")} | {"layer": [found, unknown]}
    return _draw(values, [top, _bars(values, "checked", "var(--quiet)", last=True)])


def flow_chart(flows: Sequence[Flow]) -> str:
    """What came in, what went out, and what was dropped, below each other."""
    panels = {"in": _count_taken, "out": lambda one: one.given, "dropped": lambda one: one.dropped}
    values = [
        {"epoch": one.epoch, "panel": panel, "kind": kind, "records": n, "place": -place}
        for panel, counts in panels.items()
        for one in flows
        for place, (kind, n) in enumerate(counts(one).items())
    ]
    there = [panel for panel in panels if any(v["panel"] == panel and v["records"] for v in values)] or ["in"]
    return _draw(values, [_stack(values, p, "records", last=p == there[-1]) for p in there])


def kinds(flows: Sequence[Flow]) -> list[tuple[str, int, str]]:
    """What a flow chart shows: kind, sum over the shown epochs, colour."""
    found = Counter[str]()
    for one in flows:
        found.update({**_count_taken(one), **one.given, **one.dropped})
    return [(kind, found[kind], colour) for kind, colour in COLOURS.items() if kind in found]


def _count_taken(one: Flow) -> dict[str, int]:
    counts = Counter[str]()
    for side, n in one.taken.items():
        counts[side if side in COLOURS else "other inputs"] += n
    return counts


def latency_chart(times: Sequence[Latency]) -> str:
    """Seconds of each phase, stacked."""
    values = [
        {"epoch": one.epoch, "panel": "seconds", "kind": phase, "seconds": round(s, 3), "place": -place}
        for one in times
        for place, phase in enumerate(PHASES)
        if (s := one.seconds[phase]) is not None
    ]
    return _draw(values, [_stack(values, "seconds", "seconds", last=True) | {"height": 2 * _HEIGHT}])


def lag_chart(times: Sequence[Latency]) -> str:
    """How far behind the newest event each commit was; below it, records left unread where any were."""
    longest = max((one.behind or 0 for one in times), default=0)
    unit = next((unit for unit, size in _UNITS.items() if longest >= 2 * size), "ms")
    behind = [None if one.behind is None else round(one.behind / _UNITS[unit], 3) for one in times]
    values = [{"epoch": one.epoch, unit: n, "unread": one.unread} for one, n in zip(times, behind, strict=True)]
    waits = any(one.unread for one in times)
    panels = [_bars(values, unit, "var(--quiet)", last=not waits)]
    return _draw(values, panels + ([_bars(values, "unread", "var(--s5)", last=True)] if waits else []))


def _bars(values: Values, field: str, colour: str | dict[str, Any], *, last: bool = False) -> dict[str, Any]:
    """One panel of bars; only the last one of a chart names the epochs."""
    return _panel(values, field, field, max((value[field] or 0 for value in values), default=0), colour, last=last)


def _stack(values: Values, panel: str, field: str, *, last: bool) -> dict[str, Any]:
    """One panel of bars by kind, first kind on top."""
    mine = [value for value in values if value["panel"] == panel]
    sums = [sum(value[field] for value in mine if value["epoch"] == epoch) for epoch in _epochs(values)]
    colour = {"field": "kind", "scale": {"domain": list(COLOURS), "range": list(COLOURS.values())}, "legend": None}
    bars = _panel(values, panel, field, max(sums, default=0), colour, last=last)
    bars["encoding"]["order"] = {"field": "place", "type": "quantitative"}
    bars["transform"].append({"filter": f"datum.panel === '{panel}'"})
    return bars


def _panel(
    values: Values, title: str, field: str, most: float, colour: str | dict[str, Any], *, last: bool
) -> dict[str, Any]:
    epochs = _epochs(values)
    wide = 28 if len(epochs) <= 5 else 20 if len(epochs) <= 8 else 12 if len(epochs) <= 40 else 7
    # Even if all values are zero the axis needs a length, or the bars would stand in the middle.
    amounts = {"domain": [0, most or 1]}
    ticks = {"values": [0, most] if most else [0], "labelExpr": "format(datum.value, '.3~s')", "title": None}
    encoding: dict[str, Any] = {
        "x": _across(epochs, _AXIS if last else None),
        "y": {"field": field, "type": "quantitative", "scale": amounts, "axis": ticks},
    }
    if isinstance(colour, dict):
        encoding["color"] = colour | {"type": "nominal"}
    mark = {"type": "bar", "color": colour} if isinstance(colour, str) else "bar"
    # A bar without height is left out; the numbers are in the table beside the charts.
    there = [{"filter": f"datum['{field}'] > 0"}]
    size = {"width": wide * len(epochs), "height": _HEIGHT if most else _EMPTY}
    return {"title": title, **size, "transform": there, "mark": mark, "encoding": encoding}


def _epochs(values: Values) -> list[int]:
    return sorted({value["epoch"] for value in values})


def _across(epochs: Sequence[int], axis: Mapping[str, Any] | None) -> dict[str, Any]:
    # Named, because Vega leaves out an epoch whose numbers are all unknown.
    scale = {"domain": list(epochs), "paddingInner": 0.25, "paddingOuter": 0.1}
    return {"field": "epoch", "type": "ordinal", "axis": axis, "scale": scale}


_AXIS = {"title": None, "labelAngle": 0, "labelOverlap": "parity", "labelPadding": 3}


def _draw(values: Values, panels: Sequence[Mapping[str, Any]]) -> str:
    text = {"color": "var(--soft)", "font": "inherit", "fontSize": 10, "fontWeight": "normal"}
    label = {"labelColor": "var(--soft)", "labelFont": "inherit", "labelFontSize": 10}
    axis = {"domain": False, "ticks": False, "gridColor": "var(--line)", **label}
    # Charts stand below each other.
    one_width = {"minExtent": 34, "maxExtent": 34}
    title = {"anchor": "start", "frame": "group", "dx": -34, "offset": 5, **text}
    spec = {
        "data": {"values": list(values)},
        "vconcat": list(panels),
        "spacing": 6,
        "padding": {"left": 0, "right": 4, "top": 6, "bottom": 2},
        "background": "transparent",
        "config": {"view": {"stroke": None}, "axis": axis, "axisY": one_width, "title": title},
    }
    return _svg(json.dumps(spec))


@lru_cache(maxsize=1024)
def _svg(spec: str) -> str:
    """The chart drawn, which takes 20 ms; most checks of a node have found the same in the same rows."""
    try:
        require("vl_convert")
    except ExtraMissingError as error:
        # What a chart shows is in the tables, too.
        return f'<p class="keys">{error}</p>'
    from vl_convert import vegalite_to_svg

    drawn = vegalite_to_svg(spec, vl_version="6.4")
    # A hundredth of a pixel is invisible, and a page of many epochs consists of bars.
    return _PLACE.sub(lambda place: re.sub(r"(\.\d\d)\d+", r"\1", place[0]), drawn)
