"""Changelogs of records in this process, written without Spark: a commit costs milliseconds, not a second.

For hand-written inputs: the cases of ``rivermeet replay``, and those of tests.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.io import APPEND_ONLY
from rivermeet.infra.delta.lines import open_table


def append_records(records: pa.Table, path: str, app_id: str, note: CommitNote) -> None:
    """Append records of an epoch, once, like `infra.delta.io.append` for a frame.

    Parameters
    ----------
    records
        In the columns of a changelog, with ``epoch``.
    note
        The note of the commit; its epoch is the transaction's version.
    """
    table = open_table(path)
    if table is not None and (table.transaction_version(app_id) or 0) >= note.epoch:
        return
    write_deltalake(
        path,
        records,
        mode="append",
        configuration=APPEND_ONLY if table is None else None,
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": note.model_dump_json()},
            app_transactions=[Transaction(app_id, note.epoch)],
        ),
    )
