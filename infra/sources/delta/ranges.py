"""The next range of a Delta table's versions.

    the table: versions 0 to 9, change data feed since version 2; a VACUUM has kept what versions 5 and later need
    first range, append    versions 0 to 9, if all their files exist, and no version removed rows
    first range, feed      version 2 completely, then versions 3 to 9, if all their files exist
    otherwise, as here     version 9 completely
    next range, from 6 on  versions 6 to 9
    refused                version 4 is next: its files are gone
    refused                another table id; or the table ends with version 3, and 5 was read
    refused, append        version 7 removed rows, which an append source cannot represent
    refused, feed          version 7 was written while the feed was off

The range is logged before it is read. Files of a version never change, so nothing is landed: a range
is read again with the same rows, or it is refused. Held by ``tests/infra/sources/delta/test_ranges.py`` and
``tests/infra/sources/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.infra.sources.delta.log import Commit, find_missing
from rivermeet.infra.sources.delta.refusals import TableRemadeError, VersionWentBackError
from rivermeet.infra.sources.delta.table import TableState, is_on, properties, snapshot_files
from rivermeet.infra.sources.delta.unreadable import refuse_unreadable, unreadable, versions_gone
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.pipelines import DeltaTable


def next_range(
    before: VersionRange | None, state: TableState, table: DeltaTable, name: str, accept_loss: bool = False
) -> VersionRange:
    """The range after ``before``, or the first one; ``accept_loss`` continues after versions that cannot be read."""
    if before is None:
        refuse_unreadable(state, table, name)
        return _first(state, table, name)
    start = before.end + 1
    unread = {"start": start, "end": state.latest, "snapshot": None, "passed": ()}
    why = unreadable(before.model_copy(update=unread), state, table, name)
    if why is not None and not accept_loss:
        raise why
    refuse_unreadable(state, table, name)
    if why is None:
        return _range(state, start, state.commits(start))
    if isinstance(why, TableRemadeError):
        return _first(state, table, name)
    if isinstance(why, VersionWentBackError):
        return _range(state, state.latest + 1, ())
    lost = (start, state.latest)
    if table.changes == "feed":
        return _snapshot(state).model_copy(update={"lost": lost})
    known = state.commits(max(start, state.first))
    gone = set(find_missing(state.path, [file.path for commit in known for file in commit.added]))
    passed = tuple(c.version for c in known if c.removed or any(file.path in gone for file in c.added))
    read = [commit for commit in known if commit.version not in passed]
    first = start if state.first <= start else state.first
    cut = {"lost": (start, state.first - 1)} if state.first > start else {}
    return _range(state, first, read).model_copy(update={"passed": passed, **cut})


def _first(state: TableState, table: DeltaTable, name: str) -> VersionRange:
    """All versions if they are complete in the log; otherwise the newest version completely."""
    if table.changes == "append":
        known = state.commits(0) if state.first == 0 and state.whole == 0 else None
        if known is None or any(c.removed for c in known) or versions_gone(state.path, known, table):
            return _snapshot(state)
        return _range(state, 0, known)
    since = _find_feed_start(state)
    if since is None:
        return _snapshot(state)
    known = state.commits(since + 1)
    files = snapshot_files(state.path, since)
    if find_missing(state.path, [file.path for file in files]) or versions_gone(state.path, known, table):
        return _snapshot(state)
    found = _range(state, since + 1, known)
    return found.model_copy(update={"snapshot": since, "rows": found.rows + sum(file.rows for file in files)})


def _find_feed_start(state: TableState) -> int | None:
    """The first version since which the feed was always on; None if that version cannot be read."""
    if state.whole is None or state.whole < state.first - 1:
        return None
    since = state.whole if is_on(properties(state.path, state.whole)) else None
    for commit in state.commits(state.whole + 1):
        if commit.properties is not None:
            since = (commit.version if since is None else since) if is_on(commit.properties) else None
    return since


def _snapshot(state: TableState) -> VersionRange:
    rows = sum(file.rows for file in snapshot_files(state.path, state.latest))
    found = _range(state, state.latest + 1, ())
    return found.model_copy(update={"snapshot": state.latest, "rows": rows})


def _range(state: TableState, start: int, known: Sequence[Commit]) -> VersionRange:
    rows = sum(file.rows for commit in known for file in (commit.changed or commit.added))
    return VersionRange(path=state.path, id=state.id, start=start, end=state.latest, rows=rows)
