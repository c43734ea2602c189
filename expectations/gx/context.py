"""The file context of Great Expectations: one per folder and process, and one user of its files at a time."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One at a time, of all threads and processes: a context's files need that."""
    folder.mkdir(parents=True, exist_ok=True)
    with _ONE_AT_A_TIME, open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def context_of(folder: Path) -> Any:
    """The context of a folder, which is made where it is missing; it never uses the network."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="file", project_root_dir=folder)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context
