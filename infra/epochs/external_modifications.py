"""Detects external modifications of a table, which no run of Rivermeet made, before anything is planned on it.

A table of ours has commits that carry a note, and maintenance commits, which do not change rows. Any other commit
means that offsets no longer denote the same records: an append, a RESTORE, a DELETE, another schema, missing
files. A RESTORE to exactly the version of our last commit reverts such changes, and is accepted:

    version 4   epoch 4                    ours
    version 5   WRITE, no note             refused: the changelog has rows that no epoch wrote
    version 6   RESTORE to version 4       repaired
    version 6   RESTORE to version 3       refused: epoch 4 is gone, and Delta would skip it when it is run again

Delta keeps transaction ids through a RESTORE, so an epoch that is run again after one is silently skipped: nothing
may be planned then. Held by ``tests/infra/delta/test_external_modifications.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable

from rivermeet.infra.delta.io import note_of
from rivermeet.infra.delta.layout import NodeTables
from rivermeet.infra.delta.lines import commits, open_table
from rivermeet.infra.delta.location import is_local
from rivermeet.infra.refusal import EpochRefusedError

HARMLESS = frozenset(
    {
        "OPTIMIZE",
        "REORG",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "ADD FEATURE",
        "UPGRADE PROTOCOL",
    }
)
"""Operations that do not change rows or columns."""


class ExternalModificationError(EpochRefusedError):
    """A table was modified by something other than the recorded runs; the message says how to repair it."""

    remedy = "RESTORE the version or put back the file that the message names, or rebuild the node."


def _refuse_modified(path: str, table: str, heal: str) -> None:
    """Refuse a table that others have changed since our last commit but one; ``heal`` is the command to repair it."""
    found = open_table(path)
    if found is None:
        return
    modified = _find_modification(found)
    if modified is not None:
        ours, commit = modified
        raise ExternalModificationError(
            f"{table}: version {commit['version']} is a {commit.get('operation', 'commit')} that no run of ours made: "
            f"RESTORE it to version {ours}, our last one before, if none of ours came since, or run `{heal}` "
            f"(table: {path})",
            path=path,
            version=commit["version"],
        )
    missing = next(find_missing(found), None)
    if missing is not None:
        raise ExternalModificationError(
            f"{table}: file {missing} of version {found.version()} is gone: put it back, or run `{heal}` "
            f"(table: {path})",
            path=path,
            file=missing,
        )


def refuse_modified_node(paths: NodeTables, folded: bool) -> None:
    """Raise `ExternalModificationError` if others changed a node's changelog, or its ``folded`` table."""
    name = f"'{paths.pipeline}.{paths.node}'"
    _refuse_modified(paths.changelog, f"changelog of {name}", paths.rebuild)
    if folded:
        _refuse_modified(paths.table, f"table of {name}", f"{paths.rebuild} --table-only")


def refuse_unreadable(path: str, version: int, table: str, heal: str) -> None:
    """Raise `ExternalModificationError` if VACUUM removed files of a version that a plan pins."""
    try:
        pinned = DeltaTable(path, version=version)
        missing = next(find_missing(pinned), None)
    except Exception as error:  # delta-rs has no class of its own for a version whose log is gone
        missing = f"of its log ({str(error).splitlines()[0]})"
    if missing is not None:
        raise ExternalModificationError(
            f"{table}: file {missing} of version {version}, which a plan that is still to be run pins, is gone: "
            f"put it back, or run `{heal}` (table: {path})",
            path=path,
            version=version,
            file=missing,
        )


def find_missing(table: DeltaTable) -> Iterator[str]:
    """Missing data files of a table; tables at a URL are not checked: reading them fails for a missing file."""
    for uri in filter(is_local, table.file_uris()):
        # A path without a scheme is URL-encoded, too.
        file = unquote(uri.removeprefix("file://"))
        if not os.path.exists(file):
            yield file


def _find_modification(table: DeltaTable) -> tuple[int, Mapping[str, Any]] | None:
    """(version of our commit, the first of others after it), back to our last commit but one."""
    others: list[Mapping[str, Any]] = []
    notes = 0
    for commit in commits(table):
        note = note_of(commit)
        if note is None:
            if commit.get("operation") not in HARMLESS:
                others.append(commit)
            continue
        if others and not _is_restored(others[0], commit["version"]):
            return commit["version"], others[-1]
        others, notes = [], notes + 1
        # One that overwrites replaces everything before it.
        if notes == 2 or (commit.get("operationParameters") or {}).get("mode") == "Overwrite":
            return None
    return None


def _is_restored(newest: Mapping[str, Any], ours: int) -> bool:
    parameters = newest.get("operationParameters") or {}
    return newest.get("operation") == "RESTORE" and str(parameters.get("version")) == str(ours)
