"""Data Docs: one page per run, of what Great Expectations made of the run's rows of the quality table.

What a rule finds is evaluated before its epoch is committed (``expectations/judge``), and recorded; there is no second
verdict. At the run's end one checkpoint validates the record, with a suite for each node and epoch: a rule whose row
says why it could not be evaluated is an exception there and no pass. Loading Great Expectations takes five seconds of
processor time. A process of its own does that while nodes are computed, with what they leave of the cores
(`PageWriter`).

    docs/index.html             the newest runs, one line each
    docs/runs/RUN.html#shop.orders.7      what was judged of a node at an epoch

The page is our own template, which escapes everything that it shows and loads nothing. Held by
``tests/expectations/test_data_docs.py``; why: ``docs/decisions/data-docs-per-run.md``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from html import unescape
from importlib.resources import files
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, ClassVar, cast

from rivermeet.expectations.invariants import invariants_of
from rivermeet.expectations.report.templates import templates_of, write_whole
from rivermeet.pipelines import Node, limits
from rivermeet.pipelines.plural import pluralize
from rivermeet.pipelines.times import moment

Row = Mapping[str, Any]
METRIC, ROW = "table.rivermeet_invariant", "row"
"""The metric, and the frame's only column: an invariant's row of the quality table, under ``SUITE: INVARIANT``."""
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)


@dataclass(frozen=True)
class Suite:
    """What a run judged of a node at an epoch."""

    pipeline: str
    node: str
    epoch: int
    rows: Sequence[Row]
    """Of the quality table, one for each invariant, with its ``sentence`` and ``source``."""

    @classmethod
    def of(cls, node: Node, epoch: int, rows: Sequence[Row]) -> Suite:
        """Make one of rows of the quality table."""
        declared = {one.id: {"sentence": one.sentence, "source": one.source} for one in invariants_of(node)}
        explained = [
            {**row, **declared.get(row["invariant"], {"sentence": row["invariant"], "source": ""})} for row in rows
        ]
        return cls(node.pipeline.name, node.name, epoch, explained)

    @property
    def name(self) -> str:
        """Names the suite."""
        return f"{self.pipeline}.{self.node}, epoch {self.epoch}"

    @property
    def id(self) -> str:
        """Its place on the page."""
        return anchor(self.pipeline, self.node, self.epoch)


def anchor(pipeline: str, node: str, epoch: int) -> str:
    """Where a run's page has a node's epoch."""
    return f"{pipeline}.{node}.{epoch}"


class PageWriter:
    """A process that has loaded Great Expectations by the time that a run has ended, and writes its page then.

    Where the system has no room for another process, this one writes.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = Lock()

    def start(self) -> None:
        """Start the process, where there is none."""
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        # In a group of its own: an interrupted run has a page, too, and Ctrl-C reaches all of the terminal's.
        command = [sys.executable, "-m", __name__]
        with self._lock, suppress(OSError):
            if self._process is None:
                self._process = subprocess.Popen(command, text=True, encoding="utf-8", process_group=0, **pipes)

    def write(self, folder: Path, run: str, suites: Sequence[Suite]) -> Path:
        """As `write_page`."""
        process = self._take()
        if process is None:
            return write_page(folder, run, suites)
        asked = {"folder": str(folder), "run": run, "suites": [asdict(suite) for suite in suites]}
        _, said = process.communicate(json.dumps(asked))
        if process.returncode:
            raise RuntimeError(f"no page in {page_of(folder, run)}: {said.strip()}")
        return page_of(folder, run)

    def close(self) -> None:
        """End a process that was started for nothing."""
        process = self._take()
        if process is not None:
            process.kill()
            process.communicate()

    def _take(self) -> subprocess.Popen[str] | None:
        """The process, which nobody else uses from now on."""
        with self._lock:
            process, self._process = self._process, None
        return process


def main() -> None:
    """Write the page that is asked for on standard input; nothing, where that ends without a word."""
    os.nice(5)
    # Great Expectations imports the other engines that it finds, for a quarter of its time; a frame needs none.
    sys.modules.update(dict.fromkeys(("pyspark", "sqlalchemy", "google", "botocore"), cast(Any, None)))
    _load()
    if asked := sys.stdin.read():
        given = json.loads(asked)
        write_page(Path(given["folder"]), given["run"], [Suite(**suite) for suite in given["suites"]])
    # The interpreter would take half a second to forget what it has loaded, and the run waits for its page.
    os._exit(0)


def page_of(folder: Path, run: str) -> Path:
    """The page of a run."""
    return folder / "docs" / "runs" / f"{run}.html"


def write_page(folder: Path, run: str, suites: Sequence[Suite]) -> Path:
    """Write a run's page and the index, each as a whole; one writer of a folder at a time."""
    gx = _load()
    results = _validate(run, suites)
    shown = [_render_suite(one, results[one.name]) for one in sorted(suites, key=lambda one: results[one.name].success)]
    failing = sorted({f"{one.pipeline}.{one.node}" for one in suites if not results[one.name].success})
    title = ", in ".join(filter(None, (_summarize(list(results.values())), ", ".join(failing))))
    title = f"{moment(max(row['judged_at'] for one in suites for row in one.rows))}: {title}"
    page = page_of(folder, run)
    _write(page, title=title, run=run, holds=not failing, suites=shown, version=gx.__version__)
    pages = sorted(page.parent.glob("*.html"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in pages[limits.DATA_DOCS_RUNS :]:
        old.unlink()
    runs = sorted(
        ((path.name, _title(path)) for path in pages[: limits.DATA_DOCS_RUNS]),
        # Of one minute, the page that was written last is the first: a sort keeps the order of equals.
        key=lambda run: run[1].partition(": ")[0],
        reverse=True,
    )
    _write(folder / "docs" / "index.html", title="Data Docs", runs=runs)
    return page


def _load() -> ModuleType:
    # Read on import only; without it Great Expectations reports its use over the network.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations

    expect_invariant_holds()
    return great_expectations


def _validate(run: str, suites: Sequence[Suite]) -> Mapping[str, Any]:
    """Suite to its result: one checkpoint, in a context that keeps nothing."""
    import great_expectations as gx
    import pandas as pd
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("rivermeet").add_dataframe_asset("quality")
    batch = asset.add_batch_definition_whole_dataframe(run)
    rows = [(f"{one.name}: {row['invariant']}", row) for one in suites for row in one.rows]
    frame = pd.DataFrame({ROW: [row for _, row in rows]}, pd.Index([name for name, _ in rows]))
    definitions = []
    for one in suites:
        expectations = [_expectation(one.name, row) for row in one.rows]
        suite = context.suites.add(gx.ExpectationSuite(name=one.name, expectations=expectations))
        definition = gx.ValidationDefinition(name=one.name, data=batch, suite=suite)
        definitions.append(context.validation_definitions.add(definition))
    checkpoint = gx.Checkpoint(name=run, validation_definitions=definitions, result_format="COMPLETE")
    done = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
    return {result.suite_name: result for result in done.run_results.values()}


def _expectation(suite: str, row: Row) -> Any:
    source = row["source"]
    if row["because"]:
        source = f"{source} (judged by Spark: {row['because']})"
    about = {"sentence": row["sentence"], "source": source, "blocking": row["blocking"]}
    return expect_invariant_holds()(suite=suite, invariant=row["invariant"], severity=row["severity"], meta=about)


def _render_suite(suite: Suite, result: Any) -> Mapping[str, Any]:
    """A suite's part of the page: what does not hold comes first."""
    rows = [_row(one) for one in sorted(result.results, key=lambda one: one.success)]
    return {"name": suite.name, "id": suite.id, "outcome": _summarize([result]), "holds": result.success, "rows": rows}


def _row(result: Any) -> Mapping[str, Any]:
    info = result.exception_info or {}
    # One exception stands by itself, those of several metrics each under the metric's name.
    each = [info] if "raised_exception" in info else info.values()
    error = next((str(one["exception_message"]).strip() for one in each if one["raised_exception"]), "")
    details = result.result.get("details", {})
    bad = details.get("unexpected_rows", [])
    return {
        "state": "not-evaluated" if error else "passed" if result.success else "violated",
        "severity": result.expectation_config.severity.value,
        "meta": result.expectation_config.meta,
        "observed": result.result.get("observed_value", "--"),
        "error": error.partition("\n"),
        "columns": list(dict.fromkeys(column for row in bad for column in row)),
        "bad": bad,
        "sql": details.get("sql"),
    }


def _summarize(results: Sequence[Any]) -> str:
    all_of_them = sum(len(result.results) for result in results)
    failing = sum(result.statistics["unsuccessful_expectations"] for result in results)
    return f"{failing} of {all_of_them} do not hold" if failing else f"all {all_of_them} hold"


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as read:
        found = _TITLE.search(read.read(4096))
    return unescape(found[1]) if found else page.stem


def _write(path: Path, **shown: Any) -> None:
    parts = ("rivermeet.expectations.report", "page.css"), ("rivermeet.expectations.gx", "docs.css")
    style = "".join(files(package).joinpath("page_files", name).read_text("utf-8") for package, name in parts)
    template = templates_of("rivermeet.expectations.gx").get_template("docs.html")
    write_whole(path, template.render(style=style, **shown))


@cache
def expect_invariant_holds() -> type[Any]:
    """Make the expectation ``ExpectInvariantHolds(suite=…, invariant=…)``, over a frame of the quality table's rows.

    An invariant without a row there, or whose row says why it was not evaluated, raises: no pass.
    """
    from great_expectations.core.metric_domain_types import MetricDomainTypes
    from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
    from great_expectations.expectations.expectation import BatchExpectation
    from great_expectations.expectations.metrics.metric_provider import metric_value
    from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

    class RecordedInvariant(TableMetricProvider):
        metric_name = METRIC
        value_keys = ("suite", "invariant")

        @metric_value(engine=PandasExecutionEngine)
        def _pandas(
            cls: Any, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any
        ) -> dict[str, Any]:
            frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
            name = f"{metric_value_kwargs['suite']}: {metric_value_kwargs['invariant']}"
            found = frame[ROW][frame.index == name].tolist()
            if len(found) != 1:
                raise ValueError(f"{pluralize(len(found), 'row')} of results, not one")
            if found[0]["state"] == "not evaluated":
                raise RuntimeError(found[0]["error"] or "not evaluated")
            return found[0]

    class ExpectInvariantHolds(BatchExpectation):
        suite: str
        invariant: str
        metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
        success_keys: ClassVar[tuple[str, ...]] = ("suite", "invariant")

        def _validate(self, metrics: dict[str, Any], **_: Any) -> Any:
            row = metrics[METRIC]
            of = f" of {row['checked']:,}" if row["checked"] is not None else ""
            return {
                "success": row["state"] == "passed",
                "result": {
                    "observed_value": f"{row['violations']:,}{of}",
                    "details": {"unexpected_rows": json.loads(row["sample"] or "[]"), "sql": row["sql"]},
                },
            }

    return ExpectInvariantHolds


if __name__ == "__main__":
    main()
