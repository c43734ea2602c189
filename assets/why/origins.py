"""Where the record of a source came from: the place that its changelog has, or the plan of its epoch.

| source | file | line |
|---|---|---|
| files | path, and ``!member`` of an archive | the line, from 1 with the header; of Parquet the row |
| topic | TOPIC/PARTITION | the offset |
| table of PostgreSQL | DATABASE.SCHEMA.TABLE | the position of the commit, as a number |
| Delta table | its path | the version |

The words are those of the kind of source (``infra/source_range.py``). Held by ``tests/assets/why/test_origins.py``.
"""

from __future__ import annotations

from dataclasses import replace

from rivermeet.assets.why.changelogs import Changelog, Row
from rivermeet.infra.source_kinds import kind_of
from rivermeet.infra.source_range import Origin


def origin_of(changelog: Changelog, row: Row) -> Origin:
    """Where a record of a source came from."""
    kind = kind_of(changelog.node)
    assert kind is not None, "it has no inputs"
    kept, epoch = row.get("origin") or {}, row["epoch"]
    plan = next((plan for plan in changelog.plans if plan.epoch == epoch), None)
    reads = plan.reads if plan is not None else None
    again = " (a dead letter that was read again)" if plan is not None and plan.retries else ""
    if kept.get("file"):
        file, line = kept["file"], kept.get("line")
        warning = reads.warning(file) if reads is not None else ""
        return Origin(file, line, f"{kind.ranges.place(file, line)}{again}{warning}")
    found = reads.among(epoch) if reads is not None else Origin(None, None, f"epoch {epoch}")
    return replace(found, says=f"{found.says}{again}")
