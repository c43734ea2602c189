"""Why versions of a Delta table cannot be read, each with the command that continues.

| the table, whose version 4 is next | the range is refused by |
|---|---|
| is another one, at the same path or elsewhere | `TableRemadeError`: its versions are other commits |
| ends with version 2 | `VersionWentBackError`: an older copy is in its place |
| no longer has a file, or the log, of version 4 | `VersionsGoneError`: VACUUM was faster |
| lost rows in version 4, and is read as append-only | `RowsRemovedError` |
| had no change data feed in version 4, and is read by feed | `FeedOffError` |

A version whose needed files exist has all of its rows, because files never change. Held by
``tests/infra/sources/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.sources.delta.log import Commit, commits, find_missing
from rivermeet.infra.sources.delta.refusals import (
    DeltaTableRefusedError,
    FeedOffError,
    RowsRemovedError,
    TableRemadeError,
    TableUnreadableError,
    VersionsGoneError,
    VersionWentBackError,
)
from rivermeet.infra.sources.delta.table import (
    FEED,
    PLAIN,
    TableState,
    can_be_opened,
    is_mapped,
    is_on,
    properties,
    snapshot_files,
)
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.pipelines import DeltaTable


def unreadable(planned: VersionRange, state: TableState, table: DeltaTable, name: str) -> DeltaTableRefusedError | None:
    """The refusal for a range that can no longer be read; None if it can."""
    why, whole = another(planned, state, name), planned.snapshot
    if (
        why is None
        and whole is not None
        and find_missing(state.path, [f.path for f in snapshot_files(state.path, whole)])
    ):
        return _find_gone(state, whole, whole, name)
    if why is not None or planned.end < planned.start:
        return why
    if state.first > planned.start:
        return _find_gone(state, planned.start, state.first - 1, name)
    found = commits(state.path, planned.start, planned.end)
    here = [commit for commit in found if commit.version not in planned.passed]
    if table.changes == "append":
        removing = [commit.version for commit in here if commit.removed]
        if removing:
            which = ", ".join(map(str, removing[:5])) + (", …" if len(removing) > 5 else "")
            return RowsRemovedError(
                f"source '{name}' reads what is appended to table {state.path}, and version {which} "
                f"removed rows of it: an append source has no place for that. `{name_rebuild(name)}` starts over with "
                f'what the table has; declare changes="feed" to follow changes; {cure(name)}',
                source=name,
                table=state.path,
            )
    else:
        off = _off(state, planned.start, here)
        if off is not None:
            return FeedOffError(
                f"source '{name}': version {off} of table {state.path} was written without a change data feed, so that "
                f"its changes are unknown. `{name_rebuild(name)}` starts over with what the table has; {cure(name)}",
                source=name,
                table=state.path,
            )
    gone = versions_gone(state.path, here, table)
    return _find_gone(state, gone[0], gone[-1], name) if gone else None


def refuse_unreadable(state: TableState, table: DeltaTable, name: str) -> None:
    """Raise TableUnreadableError if rows of the table cannot be read as declared, or FeedOffError."""
    found = open_table(state.path)
    assert found is not None
    there = {field.name.lower() for field in found.schema().fields}
    lacking = [column for column in table.value_columns if column.lower() not in there]
    if lacking:
        names = ", ".join(field.name for field in found.schema().fields)
        raise TableUnreadableError(
            f"source '{name}': table {state.path} has no column '{lacking[0]}' (it has {names}); correct the schema of "
            "the source",
            source=name,
            table=state.path,
            column=lacking[0],
        )
    if table.changes == "feed":
        if not state.is_fed:
            raise FeedOffError(
                f"source '{name}': table {state.path} has no change data feed; switch it on (ALTER TABLE delta."
                f'`{state.path}` SET TBLPROPERTIES ({FEED} = true)), or declare changes="append" for a table that '
                "rows are never removed from",
                source=name,
                table=state.path,
            )
        return
    features = set(found.protocol().reader_features or ()) - PLAIN - {"columnMapping"}
    features |= {"columnMapping"} if is_mapped(state.path, state.latest) else set()
    if features:
        raise TableUnreadableError(
            f"source '{name}': table {state.path} has the feature {', '.join(sorted(features))}, with which the files "
            'of its versions cannot be read one by one; switch on its change data feed and declare changes="feed"',
            source=name,
            table=state.path,
        )


def another(planned: VersionRange, state: TableState, name: str) -> DeltaTableRefusedError | None:
    """The refusal if the table is not the one of the range, or ends before it."""
    path, end = planned.path, max(planned.end, planned.start - 1)
    if (path, planned.id) != (state.path, state.id):
        what = "was deleted and recreated" if path == state.path else f"is another one: its records are of {path}"
        return TableRemadeError(
            f"source '{name}' reads table {state.path}, which {what}: its versions are others. {cure(name)}; "
            f"`{name_rebuild(name)} --lose-missing-files` starts over, without the records so far",
            source=name,
            table=state.path,
        )
    if state.latest < end:
        return VersionWentBackError(
            f"source '{name}': table {path} ends with version {state.latest}, and version {end} was read or planned: "
            f"an older copy is in its place. Put the newer one back; {cure(name)}",
            source=name,
            table=path,
        )
    return None


def versions_gone(path: str, known: Sequence[Commit], table: DeltaTable) -> list[int]:
    """Versions with a missing file that has to be read."""
    needed = {c.version: [f.path for f in (c.added if table.changes == "append" else c.feed_files)] for c in known}
    gone = set(find_missing(path, [file for files in needed.values() for file in files]))
    return [version for version, files in needed.items() if gone & set(files)]


def _find_gone(state: TableState, first: int, last: int, name: str) -> VersionsGoneError:
    which = f"version {first}" if first == last else f"versions {first} to {last}"
    return VersionsGoneError(
        f"source '{name}': {which} of table {state.path} cannot be read any longer: VACUUM, or the cleanup of its "
        f"log, has removed what it needs. `{name_rebuild(name)}` starts over with what the table has; {cure(name)}",
        source=name,
        table=state.path,
    )


def _off(state: TableState, start: int, known: Sequence[Commit]) -> int | None:
    """The first version that was written while the feed was off; None if there is none."""
    on = is_on(properties(state.path, start - 1)) if start > 0 and can_be_opened(state.path, start - 1) else True
    for commit in known:
        on = on if commit.properties is None else is_on(commit.properties)
        if not on and (commit.added or commit.removed):
            return commit.version
    return None


def name_rebuild(name: str) -> str:
    """The command that reads a source from the beginning."""
    pipeline, source = name.split(".", 1)
    return f"rivermeet rebuild {pipeline} --select {source}"


def cure(name: str) -> str:
    """The command that continues without the missing records."""
    return f"`rivermeet accept-loss {name.replace('.', ' ')}` continues with what is there, and says what is lost"
