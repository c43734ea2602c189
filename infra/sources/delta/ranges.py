"""The next range of a Delta table's versions.

    the table: versions 0 to 9, change data feed since version 2; a VACUUM has left what version 5 needs, and no more

    first range, append    versions 0 to 9, if all their files are there, and no version removed rows
    first range, feed      version 2 whole, then versions 3 to 9, if all their files are there
    otherwise, as here     version 9 whole
    next range, from 6 on  versions 6 to 9
    refused                version 4 is next: what it wrote is gone
    refused                another table id; or the table ends with version 3, and 5 was read
    refused, append        version 7 removed rows: a stream of what is appended has no place for that
    refused, feed          version 7 was written while the feed was off

The range goes into the epoch log before it is read. Files of a version never change, so that nothing is landed: a range
is read again as it was, or it is refused. Held by ``tests/infra/sources/delta/test_ranges.py`` and
``tests/infra/sources/test_faults.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from rivermeet.infra.sources.delta.log import Commit, missing
from rivermeet.infra.sources.delta.refusals import TableRemadeError, VersionWentBackError
from rivermeet.infra.sources.delta.table import TableState, is_on, properties, snapshot_files
from rivermeet.infra.sources.delta.unreadable import problem, refuse_unreadable, versions_gone
from rivermeet.infra.sources.delta.version_range import VersionRange
from rivermeet.pipelines import DeltaTable


def next_range(
    before: VersionRange | None, state: TableState, table: DeltaTable, name: str, accept_loss: bool = False
) -> VersionRange:
    """What comes after the range ``before``; what there is to be read at first where there is none.

    Parameters
    ----------
    accept_loss
        Whether to go on behind what is gone, or may not be read.
    """
    if before is None:
        refuse_unreadable(state, table, name)
        return _first(state, table, name)
    start = before.end + 1
    why = problem(state, table, before.id, before.path, start, state.latest, name)
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
    gone = set(missing(state.path, [file.path for commit in known for file in commit.added]))
    passed = tuple(c.version for c in known if c.removed or any(file.path in gone for file in c.added))
    read = [commit for commit in known if commit.version not in passed]
    first = start if state.first <= start else state.first
    cut = {"lost": (start, state.first - 1)} if state.first > start else {}
    return _range(state, first, read).model_copy(update={"passed": passed, **cut})


def _first(state: TableState, table: DeltaTable, name: str) -> VersionRange:
    """All versions, where the log has them whole; else the newest, whole."""
    if table.changes == "append":
        known = state.commits(0) if state.first == 0 and state.whole == 0 else None
        if known is None or any(c.removed for c in known) or versions_gone(state.path, known, table):
            return _snapshot(state)
        return _range(state, 0, known)
    since = _fed_since(state)
    if since is None:
        return _snapshot(state)
    known = state.commits(since + 1)
    files = snapshot_files(state.path, since)
    if missing(state.path, [file.path for file in files]) or versions_gone(state.path, known, table):
        return _snapshot(state)
    found = _range(state, since + 1, known)
    return found.model_copy(update={"snapshot": since, "rows": found.rows + sum(file.rows for file in files)})


def _fed_since(state: TableState) -> int | None:
    """The first version from which on the feed was never off; None where that is before what can be read."""
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
