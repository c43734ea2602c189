"""Dagster's event log in SQLite files, those of a run kept open from its start to its end.

Dagster's own storage opens a connection for each statement and closes it again. The last one to be closed writes
SQLite's log back into the file; that and each commit wait for the disk, some 0.1 s an event together.

| | Dagster's own | this one |
|---|---|---|
| connections of a run | two to eight for each event | one for each file |
| transactions of an event | up to four | one for each file |
| planned events, the first of a run | stored one by one | stored at once: all or none |
| a commit | waits for the disk | does not |

What is committed is seen by all processes at once, and survives the process, also ``kill -9``. A machine that loses its
power may lose the last events of a run, and its files stay whole (WAL mode with ``synchronous=NORMAL``). Nothing of an
epoch depends on events: docs/decisions/event-log.md. Held by ``tests/assets/defs/test_event_log.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from threading import RLock
from typing import Any

import dagster as dg
import sqlalchemy
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._serdes import ConfigurableClassData

INDEX = "index"
"""The file of the events of all runs that concern assets and the state of runs; beside it each run has one."""
ENDS = (dg.DagsterEventType.RUN_SUCCESS, dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_CANCELED)
_BUSY_SECONDS = 30


class EventLog(SqliteEventLogStorage):
    """The event log of a home.

    Parameters
    ----------
    home
        The folder of the Dagster instance; the files are where Dagster's own storage has them.
    """

    def __init__(self, home: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._open: dict[str, sqlalchemy.Connection] = {}
        self._tables: set[str] = set()
        # One thread at a time writes, or uses a connection that is kept.
        self._lock = RLock()
        super().__init__(str(Path(home, "history", "runs")), inst_data)

    @classmethod
    def config_type(cls) -> Mapping[str, Any]:
        """What ``dagster.yaml`` says of it."""
        return {"home": dg.StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> EventLog:
        """The storage that ``dagster.yaml`` describes."""
        return cls(inst_data=inst_data, **config_value)

    def run_connection(self, run_id: str | None = None) -> AbstractContextManager[sqlalchemy.Connection]:
        """A transaction in the file of a run."""
        return self._transaction(run_id, super().run_connection(run_id))

    def index_connection(self) -> AbstractContextManager[sqlalchemy.Connection]:
        """A transaction in the file of all runs."""
        return self._transaction(INDEX, super().index_connection())

    def has_table(self, table_name: str) -> bool:
        """Whether the file of all runs has a table; Dagster asks that for each check, and no table is ever dropped."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def store_event(self, event: dg.EventLogEntry) -> None:
        """Store an event of a run; its first one opens the files, and its last one closes them."""
        kind = event.dagster_event.event_type if event.dagster_event is not None else None
        with self._lock:
            if kind is dg.DagsterEventType.RUN_START:
                self._keep(event.run_id)
            self._store([event])
            if kind in ENDS:
                self._release(event.run_id)

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store all events of a run that is about to start, or none of them."""
        with self._lock:
            run_id = events[0].run_id
            kept = run_id in self._open
            self._keep(run_id)
            try:
                self._store(events)
            finally:
                if not kept:
                    self._release(run_id)

    def dispose(self) -> None:
        """Close all files."""
        with self._lock:
            for run_id in self._open.keys() - {INDEX}:
                self._release(run_id)
        super().dispose()

    def _store(self, events: Sequence[dg.EventLogEntry]) -> None:
        run_id = events[0].run_id
        with ExitStack() as transactions:
            if run_id in self._open:
                transactions.enter_context(self.run_connection(run_id))
                transactions.enter_context(self.index_connection())
            for event in events:
                super().store_event(event)
        if run_id in self._open:
            # Dagster's page watches this file, which SQLite leaves alone until its own log has grown.
            os.utime(self.path_for_shard(run_id))

    def _keep(self, run_id: str) -> None:
        for shard, made in ((run_id, super().run_connection(run_id)), (INDEX, super().index_connection())):
            if shard not in self._open:
                with made:
                    pass  # its tables are made by Dagster's own
                self._open[shard] = _connect(self.conn_string_for_shard(shard))

    def _release(self, run_id: str) -> None:
        others = self._open.keys() - {run_id, INDEX}
        for shard in [run_id] if others else [run_id, INDEX]:
            if shard in self._open:
                self._open.pop(shard).close()

    @contextmanager
    def _transaction(
        self, shard: str | None, otherwise: AbstractContextManager[sqlalchemy.Connection]
    ) -> Iterator[sqlalchemy.Connection]:
        """The transaction that is open on the connection that is kept, or a new one; else Dagster's own."""
        with self._lock:
            kept = self._open.get(shard or "")
            if kept is not None:
                with nullcontext() if kept.in_transaction() else kept.begin():
                    yield kept
                return
        with otherwise as made:
            yield made


def _connect(url: str) -> sqlalchemy.Connection:
    arguments = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
    connection = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, connect_args=arguments).connect()
    connection.exec_driver_sql("PRAGMA synchronous = NORMAL")
    connection.commit()
    return connection
