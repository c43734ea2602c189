"""The one class of Great Expectations that ours are: an invariant, by what a run has recorded of it.

It is made on first use: loading Great Expectations takes seconds that the code server must not pay.
"""

from __future__ import annotations

import json
from functools import cache
from html import escape
from typing import Any, ClassVar

METRIC = "table.rivermeet_invariant"
ROW = "row"
"""The frame's only column: an invariant's row of the quality table, under ``SUITE: INVARIANT``."""


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
    from great_expectations.render.components import (
        LegacyDiagnosticRendererType,
        LegacyRendererType,
    )
    from great_expectations.render.renderer.renderer import renderer

    class RecordedInvariant(TableMetricProvider):
        metric_name = METRIC
        value_keys = ("suite", "invariant")

        @metric_value(engine=PandasExecutionEngine)
        def _pandas(
            cls: Any,
            execution_engine: Any,
            metric_domain_kwargs: Any,
            metric_value_kwargs: Any,
            metrics: Any,
            runtime_configuration: Any,
        ) -> dict[str, Any]:
            frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
            name = f"{metric_value_kwargs['suite']}: {metric_value_kwargs['invariant']}"
            found = frame[ROW][frame.index == name].tolist()
            if len(found) != 1:
                raise ValueError(f"{len(found)} rows of results, not one")
            if found[0]["state"] == "not evaluated":
                raise RuntimeError(found[0]["error"] or "not evaluated")
            return found[0]

    class ExpectInvariantHolds(BatchExpectation):
        suite: str
        invariant: str
        metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
        success_keys: ClassVar[tuple[str, ...]] = ("suite", "invariant")
        args_keys: ClassVar[tuple[str, ...]] = ("suite", "invariant")

        def _validate(
            self,
            metrics: dict[str, Any],
            runtime_configuration: Any = None,
            execution_engine: Any = None,
        ) -> Any:
            row = metrics[METRIC]
            of = f" of {row['checked']:,}" if row["checked"] is not None else ""
            return {
                "success": row["state"] == "passed",
                "result": {
                    "observed_value": f"{row['violations']:,}{of}",
                    "details": {"unexpected_rows": json.loads(row["sample"] or "[]"), "sql": row["sql"]},
                },
            }

        @classmethod
        @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
        def _prescriptive_renderer(cls, configuration: Any = None, result: Any = None, **_: Any) -> list[Any]:
            expectation = configuration or getattr(result, "expectation_config", None)
            return [_text(expectation)]

        @classmethod
        @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)
        def _diagnostic_unexpected_statement_renderer(
            cls, configuration: Any = None, result: Any = None, **_: Any
        ) -> list[Any]:
            reason = _raised(getattr(result, "exception_info", None) or {})
            return _reasons(reason) if reason else []

        @classmethod
        @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)
        def _diagnostic_unexpected_table_renderer(
            cls, configuration: Any = None, result: Any = None, **_: Any
        ) -> list[Any]:
            details = ((getattr(result, "result", None) or {}).get("details")) or {}
            rows, sql = details.get("unexpected_rows") or [], details.get("sql")
            return ([_table(rows)] if rows else []) + ([_folded("The query that finds violations", sql)] if sql else [])

    return ExpectInvariantHolds


# Pages escape a template's parameters and nothing else, and rows, errors and SQL hold what users wrote.


def _styled(template: str, tag: str, classes: list[str], **params: Any) -> Any:
    from great_expectations.render.components import RenderedStringTemplateContent

    texts = {name: text for name, (text, _) in params.items()}
    looks = {name: {"tag": "span", "classes": look} for name, (_, look) in params.items()}
    styling = {"classes": classes, "params": looks}
    return RenderedStringTemplateContent(
        content_block_type="string_template",
        string_template={"template": template, "tag": tag, "params": texts, "styling": styling},
    )


def _text(expectation: Any) -> Any:
    notes = getattr(expectation, "meta", None) or {}
    severity = getattr(expectation, "severity", "")
    return _styled(
        "$severity $sentence $source",
        "span",
        [],
        severity=(str(getattr(severity, "value", severity)), ["badge", "badge-secondary"]),
        sentence=(notes.get("sentence", ""), []),
        source=(notes.get("source", ""), ["rivermeet-source"]),
    )


def _raised(info: dict[str, Any]) -> str:
    """Why it was not evaluated; one exception lies flat, one of several metrics by the metric's name."""
    each = [info] if "raised_exception" in info else list(info.values())
    return next((str(one["exception_message"]) for one in each if one["raised_exception"]), "")


def _reasons(text: str) -> list[Any]:
    first, _, rest = text.strip().partition("\n")
    what = ("Could not be evaluated:", ["text-danger", "font-weight-bold"])
    why = (first, ["text-monospace", "rivermeet-sql"])
    # An engine's message goes on with plans and traces of many lines.
    return [_styled("$what $why", "div", ["mt-2"], what=what, why=why)] + ([_folded("All of it", rest)] if rest else [])


def _folded(title: str, text: str) -> Any:
    shown = _styled("$title $text", "details", [], title=(title, []), text=(text, ["text-monospace"]))
    # Their own collapsible block needs a script.
    for name, tag in (("title", "summary"), ("text", "pre")):
        shown.string_template["styling"]["params"][name]["tag"] = tag
    return shown


def _table(rows: list[dict[str, str]]) -> Any:
    from great_expectations.render.components import RenderedTableContent

    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [[escape(str(row.get(column, ""))) for column in columns] for row in rows]
    header = [escape(column) for column in columns]
    return RenderedTableContent(content_block_type="table", table=lines, header_row=header)
