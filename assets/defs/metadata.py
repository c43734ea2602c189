"""An epoch's result as Dagster metadata: numbers that are plotted, schema, lineage, location."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import dagster as dg

from rivermeet.assets.defs.keys import changelog_key, table_key
from rivermeet.assets.defs.lineage import column_descriptions, column_lineage
from rivermeet.assets.reports.quality_report import GX
from rivermeet.expectations.gx.data_docs import anchor, page_of
from rivermeet.expectations.invariant import Severity
from rivermeet.expectations.invariants import invariants_of
from rivermeet.infra.commit_note import Decision
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.settings import HOST, Settings
from rivermeet.infra.source_range import SourceRange
from rivermeet.pipelines import Node

if TYPE_CHECKING:
    from rivermeet.assets.epoch.run import Outcome
    from rivermeet.assets.quality.judge_committed import FoldOutcome, Judgement
    from rivermeet.infra.epochs.stages.fold import Lag
    from rivermeet.infra.epochs.step import EpochResult

SEVERITY = {
    "critical": dg.AssetCheckSeverity.ERROR,
    "warning": dg.AssetCheckSeverity.WARN,
    "info": dg.AssetCheckSeverity.WARN,
}


def changelog_metadata(node: Node, paths: NodeTables, outcome: Outcome) -> Mapping[str, Any]:
    """Metadata of one epoch's changelog."""
    result, judgement = outcome.result, outcome.judgement
    assert result is not None and judgement is not None
    plan = result.plan
    rows_in = {f"rows_in_{side}": part.records for side, part in plan.inputs.items()}
    rows_in |= _describe_read(plan.reads) if plan.reads is not None else {}
    return {
        "epoch": plan.epoch,
        **rows_in,
        "rows_out": result.rows,
        "tombstones": result.tombstones,
        **{("dead" if side == "dead_letter" else side): n for side, n in result.sides.items()},
        **_late_share(result),
        **{f"seconds_{phase}": round(s, 3) for phase, s in result.seconds.items()},
        "seconds_checks": round(judgement.seconds, 3),
        "written": "staged" if result.staged else "appended by Spark",
        "input_positions": dg.MetadataValue.json(_positions(result)),
        "dagster/partition_row_count": result.rows,
        "dagster/row_count": sum(end + 1 for end in result.note.ends.values()),
        **_describe(node, paths.changelog, lineage=not node.is_table),
    }


def table_metadata(node: Node, paths: NodeTables, outcome: Outcome, lag: Lag | None) -> Mapping[str, Any]:
    """Metadata of the folded table after one epoch; ``lag``: how far it is behind, if a fold was not due."""
    result, folded = outcome.result, outcome.folded
    assert result is not None
    epochs, records = (lag.epochs, lag.records) if lag is not None else (0, 0)
    counted: dict[str, Any] = {}
    if folded is not None:
        counted = {"seconds_fold": round(folded.seconds, 3), "seconds_checks": round(folded.seconds_checks, 3)}
        counted |= {"dagster/row_count": folded.table_rows} if folded.table_rows is not None else {}
    return {
        "epoch": result.plan.epoch - epochs,
        "lag_epochs": epochs,
        "lag_records": records,
        **counted,
        **_describe(node, paths.table, lineage=True),
    }


def map_checks(node: Node) -> dict[str, dg.AssetKey]:
    """Invariant to the asset that it is a check of."""
    return {i.id: table_key(node) if i.needs_table else changelog_key(node) for i in invariants_of(node)}


def check_severity(state: str, severity: Severity) -> dg.AssetCheckSeverity:
    """How a check that does not pass is shown: as declared, but what was not judged is always an error."""
    return dg.AssetCheckSeverity.ERROR if state == "not evaluated" else SEVERITY[severity]


def check_results(
    settings: Settings, node: Node, judged: Judgement | FoldOutcome, run: str, decision: Decision | None = None
) -> Iterator[dg.AssetCheckResult]:
    """One check result per verdict; what a ``decision`` covers fails no less, but blocks nothing below."""
    asset_of, page = map_checks(node), page_metadata(settings, run, node, judged.epoch)
    for v in judged.verdicts:
        rule, sample = v.invariant, v.sample
        numbers = {"checked": v.checked, "violations": v.violations, "seconds": round(v.seconds, 3)}
        metadata: dict[str, Any] = {
            "epoch": judged.epoch,
            **{name: number for name, number in numbers.items() if number is not None},
            "state": v.state,
            "source": rule.source,
            "sql": dg.MetadataValue.md(f"```sql\n{v.sql}\n```"),
            **page,
        }
        if sample:
            columns = list(dict.fromkeys(c for row in sample for c in row))
            metadata["sample"] = rows_as_table([{c: row.get(c, "") for c in columns} for row in sample])
        metadata["judged_by"] = f"{v.judged_by}: {v.because}" if v.because else v.judged_by
        if v.error:
            metadata["error"] = v.error
        known = decision if decision is not None and not v.passed and rule.id in decision.invariants else None
        if known is not None:
            metadata["decided"] = known.summary
        yield dg.AssetCheckResult(
            asset_key=asset_of[rule.id],
            check_name=rule.id,
            passed=v.passed,
            severity=SEVERITY["info"] if known else check_severity(v.state, rule.severity),
            description=f"{v.description} The rows were {known.summary}." if known else v.description,
            metadata=metadata,
        )


def page_metadata(settings: Settings, run: str, node: Node, epoch: int) -> Mapping[str, dg.MetadataValue]:
    """Metadata that lead to what Data Docs say of a node at an epoch; the page is written at the run's end.

    The path is for readers without the server of `rivermeet ui`.
    """
    page = page_of(settings.reports / GX, run)
    return {
        "data_docs": dg.MetadataValue.url(
            f"{report_url(settings, page)}#{quote(anchor(node.pipeline.name, node.name, epoch))}"
        ),
        "data_docs_path": dg.MetadataValue.path(page),
    }


def report_url(settings: Settings, page: Path) -> str:
    """Address of a page below the reports, as a browser follows no link from Dagster's pages to a file.

    It is in the history of each check, and must not change from one start to the next: its port is a setting.
    """
    below = page.resolve().relative_to(settings.reports.resolve())
    return f"http://{HOST}:{settings.reports_port}/{quote(below.as_posix())}"


def _late_share(result: EpochResult) -> Mapping[str, float]:
    """Share of the records read that were dropped, for families that can drop."""
    read = sum(part.records for part in result.plan.inputs.values())
    return {"late_share": round(result.sides["late"] / read, 6) if read else 0.0} if "late" in result.sides else {}


def _positions(result: EpochResult) -> Mapping[str, Any]:
    plan = result.plan
    inputs = {
        side: {
            "changelog_version": part.version,
            "table_version": part.table_version,
            "offsets": {str(p): [part.after.get(p, -1) + 1, end] for p, end in part.upto.items()},
        }
        for side, part in plan.inputs.items()
    }
    shown = plan.reads.to_json() if plan.reads is not None else None
    return {**inputs, **({plan.reads.kind: shown} if plan.reads is not None and shown else {})}


def _describe_read(reads: SourceRange) -> Mapping[str, Any]:
    """What an epoch of a source has read, and what was there when it was planned."""
    return {
        name: rows_as_table(value) if isinstance(value, list) else value
        for name, value in reads.metadata(time.time() * 1000).items()
    }


def rows_as_table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Rows with the same columns, numbers and texts."""
    columns = rows[0] if rows else {}
    kinds = [(name, "int" if isinstance(value, int) else "string") for name, value in columns.items()]
    return dg.MetadataValue.table(
        [dg.TableRecord(row) for row in rows], dg.TableSchema([dg.TableColumn(*kind) for kind in kinds])
    )


def _describe(node: Node, path: str, *, lineage: bool) -> Mapping[str, Any]:
    found = column_lineage(node) if lineage else None
    return {
        "dagster/uri": path,
        "dagster/storage_kind": "delta",
        "dagster/table_name": f"{node.pipeline.name}.{node.name}",
        "dagster/column_schema": _schema(path, column_descriptions(node)),
        **({"dagster/column_lineage": found} if found else {}),
    }


def _schema(path: str, described: Mapping[str, str]) -> dg.TableSchema:
    from deltalake import DeltaTable

    columns: dict[str, str] = {}
    for item in DeltaTable(path).schema().fields:
        parts = getattr(item.type, "fields", None)
        if parts is None:
            columns[item.name] = _type(item.type)
        else:
            columns |= {f"{item.name}.{part.name}": _type(part.type) for part in parts}
    return dg.TableSchema([dg.TableColumn(name, kind, described.get(name)) for name, kind in columns.items()])


def _type(kind: Any) -> str:
    return str(getattr(kind, "type", "struct" if hasattr(kind, "fields") else kind))
