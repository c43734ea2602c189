"""Where the record of a source came from: the place that its changelog has, or the plan of its epoch.

| source | file | line |
|---|---|---|
| files | path, and ``!member`` of an archive | the line, from 1 with the header; of Parquet the row |
| topic | TOPIC/PARTITION | the offset |
| table of PostgreSQL | DATABASE.SCHEMA.TABLE | the position of the commit, as a number |
| Delta table | its path | the version |

Another kind of source adds its own function to `KINDS`. Held by ``tests/assets/why/test_origins.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rivermeet.assets.why.changelogs import Changelog, Row
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.infra.postgres.lsn import lsn_text
from rivermeet.pipelines import DeltaTable, Files, Kafka, Postgres


@dataclass(frozen=True)
class Origin:
    """A place outside: ``file``, ``line`` where it is known, and what has to be said about it."""

    file: str | None
    line: int | None
    says: str


def origin_of(changelog: Changelog, row: Row) -> Origin:
    """Where a record of a source came from."""
    source = changelog.node.source
    assert source is not None
    kept = row.get("origin") or {}
    plan = next((plan for plan in changelog.plans if plan.epoch == row["epoch"]), None)
    found = KINDS.get(type(source.reads), _unknown)
    return found(changelog, row, kept, plan)


def _of_files(changelog: Changelog, row: Row, kept: Row, plan: EpochPlan | None) -> Origin:
    del changelog
    again = " (a dead letter that was read again)" if plan is not None and plan.retries else ""
    if kept.get("file"):
        file, line = kept["file"], kept.get("line")
        place = f"line {line}" if line is not None else "in a line that the engine has not counted"
        return Origin(file, line, f"{file}, {place}{again}{_changed(plan, file.partition('!')[0])}")
    files = [file.path for file in plan.files if not file.duplicate_of] if plan else []
    if len(files) == 1:
        return Origin(files[0], None, f"{files[0]}{again}")
    which = f"one of the {len(files)} files of epoch {row['epoch']}" if files else f"epoch {row['epoch']}"
    return Origin(None, None, f"{which}{again}")


def _changed(plan: EpochPlan | None, path: str) -> str:
    """A warning where a file is no longer what it was when it was read."""
    planned = next((file for file in plan.files if file.path == path), None) if plan is not None else None
    try:
        changed = planned is not None and Path(path).stat().st_size != planned.length
    except OSError:
        return ""
    return " (the file was changed since it was read)" if changed else ""


def _of_topic(changelog: Changelog, row: Row, kept: Row, plan: EpochPlan | None) -> Origin:
    del changelog
    if kept.get("file"):
        topic, _, partition = kept["file"].rpartition("/")
        says = f"topic '{topic}', partition {partition}, offset {kept['line']}"
        return Origin(kept["file"], kept["line"], says)
    if plan is None or plan.topic is None:
        return Origin(None, None, f"epoch {row['epoch']}")
    ranges = ", ".join(f"partition {p} from {start} to {end - 1}" for p, (start, end) in plan.topic.unread.items())
    return Origin(plan.topic.topic, None, f"topic '{plan.topic.topic}', among the offsets of {ranges}")


def _of_database(changelog: Changelog, row: Row, kept: Row, plan: EpochPlan | None) -> Origin:
    del changelog
    if kept.get("file"):
        return Origin(kept["file"], kept["line"], f"table '{kept['file']}', commit {lsn_text(kept['line'])}")
    if plan is None or plan.wal is None or plan.wal.end is None:
        return Origin(None, None, f"epoch {row['epoch']}")
    return Origin(plan.wal.table, None, f"table '{plan.wal.table}', a commit before {lsn_text(plan.wal.end)}")


def _of_delta(changelog: Changelog, row: Row, kept: Row, plan: EpochPlan | None) -> Origin:
    del changelog
    if kept.get("file"):
        return Origin(kept["file"], kept["line"], f"Delta table '{kept['file']}', version {kept['line']}")
    if plan is None or plan.delta is None:
        return Origin(None, None, f"epoch {row['epoch']}")
    return Origin(plan.delta.path, None, f"one of {plan.delta.shown}")


def _unknown(changelog: Changelog, row: Row, kept: Row, plan: EpochPlan | None) -> Origin:
    del changelog, plan
    if kept.get("file"):
        line = kept.get("line")
        return Origin(kept["file"], line, kept["file"] if line is None else f"{kept['file']}, {line}")
    return Origin(None, None, f"epoch {row['epoch']}")


KINDS: Mapping[type, Callable[[Changelog, Row, Row, EpochPlan | None], Origin]] = {
    Files: _of_files,
    Kafka: _of_topic,
    Postgres: _of_database,
    DeltaTable: _of_delta,
}
"""Kind of source to what finds the place of a record: changelog, row, its ``origin``, and the plan of its epoch."""
