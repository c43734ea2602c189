"""Whose processor time something is: the engine's, by what its threads do, and that of this process.

| kind | threads of the engine's JVM |
|---|---|
| tasks | those that compute with records |
| compilers | those of the JVM that compile methods |
| garbage | those that collect it |
| requests | all others: what is asked is analysed, planned and scheduled, and answers are sent |

The kernel counts by thread, and the JVM names its threads. They are looked at twice a second, so that what a thread has
done that has ended since counts as well. Where there is no ``/proc``, nothing is known. Held by
``tests/assets/cli/test_bench.py``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

SECONDS_BETWEEN = 0.5
_KINDS = {"Executor task": "tasks", "C1 ": "compilers", "C2 ": "compilers", "GC ": "garbage", "ParGC": "garbage"}
"""Starts of names."""


@contextmanager
def watch_processor_time(jvm: int | None) -> Iterator[Mapping[str, float]]:
    """Count seconds of processor time by kind, while it is entered.

    Parameters
    ----------
    jvm
        Process of the engine; None: it is this one's, or elsewhere.
    """
    found: dict[str, float] = defaultdict(float)
    ended = Event()
    own = os.times()

    def look() -> None:
        before = _threads(jvm)
        while True:
            stopped = ended.wait(SECONDS_BETWEEN)
            now = _threads(jvm)
            for thread, (kind, seconds) in now.items():
                found[kind] += seconds - before.get(thread, (kind, 0.0))[1]
            if stopped:
                return
            before = now

    looking = Thread(target=look, daemon=True)
    looking.start()
    try:
        yield found
    finally:
        ended.set()
        looking.join()
        now = os.times()
        found["this process"] = now.user + now.system - own.user - own.system


def _threads(process: int | None) -> Mapping[str, tuple[str, float]]:
    """Kind and seconds of each thread; none of a process that is not known, or on a system without ``/proc``."""
    found: dict[str, tuple[str, float]] = {}
    for folder in Path(f"/proc/{process}/task").glob("*") if process is not None else ():
        try:
            name, _, numbers = (folder / "stat").read_text().partition("(")[2].rpartition(") ")
        except OSError:
            continue
        user, system = numbers.split()[11:13]
        kind = next((kind for start, kind in _KINDS.items() if name.startswith(start)), "requests")
        found[folder.name] = (kind, (int(user) + int(system)) / os.sysconf("SC_CLK_TCK"))
    return found
