"""Tables beside a changelog (late, dead letters, memory): written before the commit, counted after it.

Their rows carry the epoch. One counts if its epoch is committed and of the incarnation that the changelog has now: from
the note's ``since`` to its ``epoch``. An epoch that is run again as it was planned finds its rows written. One that was
planned by two homes that share tables, the first of which died before its commit, may be another epoch with other rows:
then those of the first are replaced (``tests/infra/epochs/test_two_at_once.py``).

The quarantine has the rows of epochs that were refused, as the last attempt gave them.
"""

from __future__ import annotations

import hashlib

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from infra.delta.io import RETENTION, allow_removal, append
from infra.delta.lines import commits, opened
from infra.epochs.plan import EpochPlan


def write_side(frame: DataFrame, path: str, app_id: str, plan: EpochPlan, besides: str = "") -> None:
    """Write a side frame of an epoch, once; ``besides`` is what the rows depend on other than the plan."""
    rows = frame.withColumn("epoch", F.lit(plan.epoch).cast("bigint"))
    digest = hashlib.sha256((plan.model_dump_json() + besides).encode()).hexdigest()
    table = opened(path)
    if table is not None and (table.transaction_version(app_id) or 0) >= plan.epoch:
        written = next((c for c in commits(table) if (c.get("userMetadata") or "").startswith(f"{plan.epoch} ")), {})
        if written.get("userMetadata") != f"{plan.epoch} {digest}":
            # An earlier version may have made the table append-only, and with fewer columns.
            allow_removal(frame.sparkSession, path, table)
            replaced = rows.write.format("delta").mode("overwrite").option("replaceWhere", f"epoch = {plan.epoch}")
            replaced.option("mergeSchema", "true").option("userMetadata", f"{plan.epoch} {digest}").save(path)
        return
    append(rows, path, app_id, plan.epoch, metadata=f"{plan.epoch} {digest}", properties=RETENTION)
