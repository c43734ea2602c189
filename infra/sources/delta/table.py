"""The current state of a Delta table: its id, its versions, the files of a version, and its properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake.exceptions import DeltaError

from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.sources.delta.log import Commit, DataFile, commits, versions
from rivermeet.infra.sources.delta.refusals import DeltaTableMissingError, TableUnreadableError

FEED = "delta.enableChangeDataFeed"
PLAIN = frozenset(
    {"deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""Features with which the rows of an added file are exactly those of the file, with the same names."""


@dataclass(frozen=True)
class TableState:
    """A table: its id, its newest version, the first log entry, and the first version that can be read completely."""

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
    """The current table at ``path``; ``name`` is the source, as ``PIPELINE.SOURCE``."""
    try:
        table = open_table(path)
        if table is not None:
            entries, whole = versions(path)
            latest = table.version()
            return TableState(path, str(table.metadata().id), latest, _find_unbroken(entries, latest), whole)
    except DeltaError as error:
        raise TableUnreadableError(
            f"source '{name}': table {path} cannot be opened: {error}", source=name, table=path
        ) from None
    raise DeltaTableMissingError(
        f"source '{name}': there is no Delta table at {path}; write it, or correct the path of the source (a relative "
        "one is below RIVERMEET_DATA)",
        source=name,
        table=path,
    )


def snapshot_files(path: str, version: int) -> list[DataFile]:
    """The files of a version, in the order in which they were written, and by path for equal times."""
    table = open_table(path, version)
    assert table is not None
    files = pa.table(table.get_add_actions(flatten=True)).select(["path", "num_records", "modification_time"])
    in_order = files.sort_by([("modification_time", "ascending"), ("path", "ascending")]).to_pylist()
    return [DataFile(file["path"], {}, file["num_records"] or 0) for file in in_order]


def is_list_of_files(path: str, version: int) -> bool:
    """Whether the rows of a version are exactly those of its files, with the same names."""
    table = open_table(path, version)
    assert table is not None
    features = set(table.protocol().reader_features or ()) - (PLAIN - {"deletionVectors"}) - {"columnMapping"}
    return not (features or table.metadata().partition_columns or is_mapped(path, version))


def is_mapped(path: str, version: int) -> bool:
    """Whether files have different column names from the table."""
    return properties(path, version).get("delta.columnMapping.mode", "none") != "none"


def can_be_opened(path: str, version: int) -> bool:
    """Whether a version can be opened."""
    try:
        return open_table(path, version) is not None
    except DeltaError:
        return False


def properties(path: str, version: int) -> Mapping[str, str]:
    """The table's properties at a version."""
    table = open_table(path, version)
    assert table is not None
    return {name: value or "" for name, value in table.metadata().configuration.items()}


def is_on(found: Mapping[str, str]) -> bool:
    """Whether properties switch the change data feed on."""
    return found.get(FEED, "false").lower() == "true"


def _find_unbroken(entries: Sequence[int], latest: int) -> int:
    """The first log entry after which none is missing."""
    first = latest + 1
    for version in reversed(entries):
        if version > latest:
            continue
        if version != first - 1:
            break
        first = version
    return first
