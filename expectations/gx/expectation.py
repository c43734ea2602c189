"""The one kind of expectation that we have: an invariant, by what a run has recorded of it.

It is made on first use: loading Great Expectations takes seconds that the code server must not pay.
"""

from __future__ import annotations

import json
from functools import cache
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
                raise ValueError(f"{len(found)} rows of results, not one")
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
