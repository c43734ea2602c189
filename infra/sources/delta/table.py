"""A Delta table as it stands: its id, its versions, the files of one, and what its log has of its properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake.exceptions import DeltaError

from rivermeet.infra.delta.lines import opened
from rivermeet.infra.sources.delta.log import Commit, DataFile, commits, versions
from rivermeet.infra.sources.delta.refusals import TableMissingError, TableUnreadableError

FEED = "delta.enableChangeDataFeed"
PLAIN = frozenset(
    {"deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""Features under which the rows of a file that a version adds are those of the file, under their own names."""


@dataclass(frozen=True)
class TableState:
    """A table: its id, its newest version, the first of the log's entries, and the first version to be read whole."""

    path: str
    id: str
    latest: int
    first: int
    whole: int | None

    def commits(self, start: int) -> Sequence[Commit]:
        """The commits from a version on."""
        return list(commits(self.path, start, self.latest))

    @property
    def is_fed(self) -> bool:
        """Whether the change data feed is on."""
        return is_on(properties(self.path, self.latest))


def table_state(path: str, name: str) -> TableState:
    """What is at ``path`` now; ``name`` is the source, as ``PIPELINE.SOURCE``."""
    try:
        table = opened(path)
        if table is not None:
            entries, whole = versions(path)
            latest = table.version()
            return TableState(path, str(table.metadata().id), latest, _unbroken(entries, latest), whole)
    except DeltaError as error:
        raise TableUnreadableError(f"source '{name}': table {path} cannot be opened: {error}") from None
    raise TableMissingError(
        f"source '{name}': there is no Delta table at {path}; write it, or correct the path of the source (a relative "
        "one is below RIVERMEET_DATA)"
    )


def snapshot_files(path: str, version: int) -> list[DataFile]:
    """The files of a version, in the order in which they were written; by path where that is the same time."""
    table = opened(path, version)
    assert table is not None
    files = pa.table(table.get_add_actions(flatten=True)).select(["path", "num_records", "modification_time"])
    in_order = files.sort_by([("modification_time", "ascending"), ("path", "ascending")]).to_pylist()
    return [DataFile(file["path"], {}, file["num_records"] or 0) for file in in_order]


def is_list_of_files(path: str, version: int) -> bool:
    """Whether the rows of a version are all that its files have, under their own names."""
    table = opened(path, version)
    assert table is not None
    features = set(table.protocol().reader_features or ()) - (PLAIN - {"deletionVectors"}) - {"columnMapping"}
    return not (features or table.metadata().partition_columns or is_mapped(path, version))


def is_mapped(path: str, version: int) -> bool:
    """Whether files have columns of other names than the table."""
    return properties(path, version).get("delta.columnMapping.mode", "none") != "none"


def can_be_opened(path: str, version: int) -> bool:
    """Whether a version can be opened."""
    try:
        return opened(path, version) is not None
    except DeltaError:
        return False


def properties(path: str, version: int) -> Mapping[str, str]:
    """The table's properties at a version."""
    table = opened(path, version)
    assert table is not None
    return {name: value or "" for name, value in table.metadata().configuration.items()}


def is_on(found: Mapping[str, str]) -> bool:
    """Whether properties switch the change data feed on."""
    return found.get(FEED, "false").lower() == "true"


def _unbroken(entries: Sequence[int], latest: int) -> int:
    """The first of the log's entries that all later ones follow."""
    first = latest + 1
    for version in reversed(entries):
        if version > latest:
            continue
        if version != first - 1:
            break
        first = version
    return first
