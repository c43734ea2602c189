"""What an epoch stands on: one empty append, and one bare MERGE of as many rows as the last epoch changed.

Both run on the warm engine right after the epochs, on a copy of the result's folded table, with Delta's own SQL and
nothing of ours around it. The second of two counts: the first has warmed up.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rivermeet.assets.bench.run import private_settings
from rivermeet.assets.bench.workloads import Workload
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.engine.session import session
from rivermeet.infra.settings import Settings
from rivermeet.pipelines.expressions import quote


def floor(workload: Workload, settings: Settings, scratch: Path) -> Mapping[str, float]:
    """Seconds of an ``append`` of no rows and, where the result is a table, of a ``merge``.

    Parameters
    ----------
    settings
        Under which the workload has just been run.
    scratch
        Folder for the copy.
    """
    result = workload.result
    paths = NodeTables(private_settings(settings, workload.pipeline.name).tables, workload.pipeline.name, result.name)
    spark, found = session(settings), last_note(paths.changelog)
    assert found is not None, paths.changelog
    rows = read(spark, paths.changelog).where(f"epoch = {found[1].epoch}")
    empty = rows.where("false").drop("key", "value", "trigger")
    log = str(scratch / "log")
    seconds = {"append": _second(lambda: empty.write.format("delta").mode("append").save(log))}
    if result.is_table:
        copy = str(scratch / "table")
        shutil.copytree(paths.table, copy)
        changed = read(spark, copy).join(rows.select("key.*").distinct(), list(result.key), "left_semi")
        changed.write.format("delta").save(str(scratch / "changed"))
        on = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in result.key)
        merge = f"""MERGE INTO delta.{quote(copy)} t USING delta.{quote(str(scratch / "changed"))} s ON {on}
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
        seconds["merge"] = _second(lambda: spark.sql(merge).collect())
    return seconds


def _second(run: Callable[[], object]) -> float:
    run()
    start = time.monotonic()
    run()
    return round(time.monotonic() - start, 3)
