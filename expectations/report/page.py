"""The report: one page of HTML that holds all it needs, made from plain rows.

It shows what is recorded and judges nothing: a cell is a row of the ``quality`` table, a bar is a number of the epoch
log, and what is missing there is shown as missing. There is no overall score, which would hide one critical violation
among many passes. All text comes from data and is escaped: by the template in the page, and in the JSON that the
drawer reads, where it stays text. The page's policy allows its one script to run, and nothing to be fetched.

    page([PipelineHistory("shop", [NodeHistory(node, …)])], written_at)     '<!DOCTYPE html>…'

Held by ``tests/expectations/test_report_page.py``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from rivermeet.expectations.report import charts as report_charts
from rivermeet.expectations.report.checks import Cell, CheckRow, Checks, checks, worst
from rivermeet.expectations.report.flow import Flow, Latency, Line, flow, latency
from rivermeet.expectations.report.templates import templates_of
from rivermeet.pipelines import Node, limits


class Reason(NamedTuple):
    """What is behind a key's rows: the command that explains them, and what it prints; empty where it was not asked."""

    command: str
    tree: str


@dataclass(frozen=True)
class NodeHistory:
    """What is recorded of one node.

    Attributes
    ----------
    about
        Sentences that say what it is computed by.
    committed
        Its last committed epoch; None before the first. An epoch beyond it was refused.
    epochs
        Epochs to show, oldest first; ``hidden`` older ones are recorded and not shown.
    judged
        Its rows of the ``quality`` table at those epochs, in the columns of `expectations.results.SCHEMA`.
    measured
        Its lines of the epoch log at those epochs, oldest first.
    inputs
        Side to the lines of the input that it reads there.
    read
        Of a source, what its newest epoch has read, where its kind has a table of it: ``infra/sources/standing.py``.
    reasons
        What is behind bad rows, by the text of their ``key``.
    """

    node: Node
    about: str = ""
    committed: int | None = None
    epochs: Sequence[int] = ()
    hidden: int = 0
    judged: Sequence[Mapping[str, Any]] = ()
    measured: Sequence[Line] = ()
    inputs: Mapping[str, Sequence[Line]] = field(default_factory=dict)
    read: Any = None
    reasons: Mapping[str, Reason] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Its place on the page."""
        return f"{self.node.pipeline.name}.{self.node.name}"

    @property
    def records(self) -> int | None:
        """Records that its changelog holds."""
        return sum(end + 1 for end in self.measured[-1]["ends"].values()) if self.measured else None

    @property
    def appended(self) -> int:
        """Epochs, of those that are shown, whose rows Spark appended: they could not be staged."""
        return sum(not line.get("staged", True) for line in self.measured)

    def newest(self, detailed: int) -> Sequence[int]:
        """The epochs that have a column each, newest first."""
        return self.epochs[: -detailed - 1 : -1]

    def older(self, detailed: int) -> Sequence[Sequence[int]]:
        """The epochs before those: what each of at most `EPOCH_GROUPS` columns has, the newest column first."""
        rest = self.epochs[:-detailed]
        size = max(1, -(-len(rest) // limits.EPOCH_GROUPS))
        return [rest[max(0, end - size) : end] for end in range(len(rest), 0, -size)]

    def select_charted(self, detailed: int) -> Sequence[CheckRow]:
        """The invariants that did not hold in one of the newest epochs."""
        return [row for row in self.checks.rows if row.wrong and row.wrong[-1].epoch >= self.epochs[-detailed:][0]]

    @cached_property
    def checks(self) -> Checks:
        """What was judged."""
        return checks(self.node, self.judged, self.epochs)

    @cached_property
    def flow(self) -> Sequence[Flow]:
        """What went through."""
        return flow(self.measured)

    @cached_property
    def latency(self) -> Sequence[Latency]:
        """How long it took, and how far behind it was."""
        seconds: dict[int, float] = {}
        for cell in (cell for row in self.checks.rows for cell in row.cells):
            if cell.found.get("stage") == "table":
                seconds[cell.epoch] = seconds.get(cell.epoch, 0.0) + cell.found["seconds"]
        return latency(self.measured, seconds, self.inputs)


@dataclass(frozen=True)
class PipelineHistory:
    """What is recorded of one pipeline.

    Attributes
    ----------
    shadows
        The last audit of each application that a node is compared with: ``node``, ``topic``, ``epoch``, ``at`` (ms),
        ``keys``, ``equal``, ``otherwise``, ``losses``, ``explained``, ``undecodable``, ``read`` (lines), ``path``, and
        ``differences``: ``heading``, ``explained`` and ``first``, each with its ``key`` and ``parts`` (lines).
    """

    name: str
    nodes: Sequence[NodeHistory]
    description: str = ""
    shadows: Sequence[Mapping[str, Any]] = ()

    @property
    def standing(self) -> Sequence[Cell]:
        """What counts today, of all nodes."""
        return [cell for one in self.nodes for cell in one.checks.standing]

    @property
    def holding(self) -> int:
        """Invariants that hold, of all nodes."""
        return sum(one.checks.holding for one in self.nodes)

    @property
    def worst(self) -> str:
        """The gravest of what does not hold."""
        return worst(one.checks.worst for one in self.nodes)

    @property
    def judged_at(self) -> int | None:
        """When it was judged last (ms)."""
        times = (row.get("judged_at") for one in self.nodes for row in one.judged)
        return max((at for at in times if at is not None), default=None)


def page(pipelines: Sequence[PipelineHistory], written_at: datetime, cells: int = limits.DETAILED_CELLS) -> str:
    """The whole page; about ``cells`` cells have details, and older epochs are grouped and have no charts."""
    templates = templates_of("rivermeet.expectations.report")
    # Columns of a bad row keep the order that their query gives them.
    templates.policies["json.dumps_kwargs"] = {"sort_keys": False}
    parts = files("rivermeet.expectations.report").joinpath("page_files")
    script, style = (parts.joinpath(name).read_text("utf-8") for name in ("page.js", "page.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    nodes = [one for pipeline in pipelines for one in pipeline.nodes]
    detailed = min(
        limits.MOST_DETAILED_EPOCHS,
        max(limits.LEAST_DETAILED_EPOCHS, cells // max(1, sum(len(one.checks.rows) for one in nodes))),
    )
    return templates.get_template("page.html").render(
        pipelines=pipelines,
        nodes=nodes,
        detailed=detailed,
        details=[
            _detail(one, row, cell, is_last=cell is found[-1])
            for one in nodes
            for row in one.checks.rows
            for found in [[cell for cell in row.cells if cell.found]]
            for cell in found
            if cell is found[-1] or cell.epoch >= one.epochs[-detailed:][0]
        ],
        charts=report_charts,
        written_at=int(written_at.astimezone(UTC).timestamp() * 1000),
        script=script,
        script_hash=f"sha256-{digest}",
        style=style,
    )


JUDGED = {
    "epoch": "on the epoch's rows",
    "commit": "on what is committed",
    "table": "on what is committed",
    "verify": "by `rivermeet verify`",
}
SCOPES = {"epoch": ", as far as the epoch touches it", "whole": ", all of it"}


def _detail(shown: NodeHistory, row: CheckRow, cell: Cell, *, is_last: bool) -> dict[str, Any]:
    found = cell.found
    why = found.get("because")
    by = f", by Spark: {why}" if why else ", by Spark" if found.get("judged_by") == "spark" else ""
    bad = dict.fromkeys(row.get("key", "") for row in cell.sample)
    return {
        "id": f"{shown.id}.{row.invariant}.{cell.epoch}",
        "node": shown.id,
        "epoch": cell.epoch,
        "invariant": row.invariant,
        "sentence": row.sentence or "No longer declared.",
        "source": row.source,
        "state": cell.state,
        "look": cell.look,
        **{name: found[name] for name in ("severity", "blocking", "checked", "violations", "run", "error")},
        "judged": JUDGED[found["stage"]] + SCOPES.get(found.get("scope") or "", "") + by,
        "seconds": round(found["seconds"], 3),
        # The query of what held before is that of today, with other versions.
        "sql": found["sql"] if is_last or cell.state != "passed" else "",
        "sample": cell.sample,
        "why": [shown.reasons[key]._asdict() for key in bad if key in shown.reasons],
    }
