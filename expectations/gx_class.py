"""The one class of Great Expectations that ours are: it judges an invariant by its row of results.

It is made on first use: loading Great Expectations takes seconds that the code server must not pay.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, ClassVar

METRIC = "table.rivermeet_invariant"


@cache
def expect_invariant_holds() -> type[Any]:
    """Make the expectation ``ExpectInvariantHolds(invariant=…)``, over a pandas frame of results.

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

    class InvariantRow(TableMetricProvider):
        metric_name = METRIC
        value_keys = ("invariant",)

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
            found = frame[frame["invariant"] == metric_value_kwargs["invariant"]].to_dict("records")
            if len(found) != 1:
                raise ValueError(f"{len(found)} rows of results, not one")
            if found[0]["error"]:
                raise RuntimeError(found[0]["error"])
            return found[0]

    class ExpectInvariantHolds(BatchExpectation):
        invariant: str
        metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
        success_keys: ClassVar[tuple[str, ...]] = ("invariant",)
        args_keys: ClassVar[tuple[str, ...]] = ("invariant",)

        def _validate(
            self,
            metrics: dict[str, Any],
            runtime_configuration: Any = None,
            execution_engine: Any = None,
        ) -> Any:
            row = metrics[METRIC]
            violations, checked = int(row["violations"]), int(row["checked"])
            return {
                "success": violations <= int(row["allowed"]),
                "result": {
                    # -1 is unknown: with None in it, pandas would make the column floats.
                    "observed_value": f"{violations}" + (f" of {checked}" if checked >= 0 else ""),
                    "details": {"unexpected_rows": json.loads(row["sample"]), "sql": row["sql"]},
                },
            }

        @classmethod
        @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
        def _prescriptive_renderer(cls, configuration: Any = None, result: Any = None, **_: Any) -> list[Any]:
            expectation = configuration or getattr(result, "expectation_config", None)
            return [_text(expectation)]

        @classmethod
        @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)
        def _diagnostic_unexpected_table_renderer(
            cls, configuration: Any = None, result: Any = None, **_: Any
        ) -> list[Any]:
            details = ((getattr(result, "result", None) or {}).get("details")) or {}
            rows = details.get("unexpected_rows") or []
            return [_table(rows)] if rows else []

    return ExpectInvariantHolds


def _text(expectation: Any) -> Any:
    from great_expectations.render.components import RenderedStringTemplateContent

    notes = getattr(expectation, "meta", None) or {}
    # The template language takes $ for a parameter.
    text = f"{notes.get('sentence', '')} ({notes.get('source', '')})".replace("$", "$$")
    return RenderedStringTemplateContent(
        content_block_type="string_template", string_template={"template": text, "params": {}}
    )


def _table(rows: list[dict[str, str]]) -> Any:
    from great_expectations.render.components import RenderedTableContent

    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [[str(row.get(column, "")) for column in columns] for row in rows]
    return RenderedTableContent(content_block_type="table", table=lines, header_row=columns)
