"""How the engine's heap is doing: the share of the last minute that went into garbage collection.

A JVM whose heap is full does not end: it collects, frees next to nothing, and collects again. To a waiting client it
looks like a long query. Held by ``tests/infra/engine/test_watch.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WINDOW_SECONDS = 60.0
FULL = 0.5
"""Share of the time from which the engine collects more than it works."""
UNFREED = 0.9
"""Share of the old generation that is left after a collection, from which an engine that nobody uses is of no use."""


@dataclass(frozen=True)
class Heap:
    """What a minute of the engine's JVM was like.

    Attributes
    ----------
    collecting
        Share of the time in which it collected garbage.
    unfreed
        Share of the old generation that its last collection left in use.
    """

    collecting: float
    unfreed: float

    @property
    def is_full(self) -> bool:
        """Whether it collects more than it works."""
        return self.collecting > FULL

    @property
    def sentence(self) -> str:
        """What to say of a full one, after its name."""
        return (
            f"spent {self.collecting:.0%} of the last minute collecting garbage, and {self.unfreed:.0%} of its old "
            "generation stays in use: run less at once, or end it with `rivermeet engine stop` and give it a larger "
            "RIVERMEET_ENGINE_MEMORY"
        )


class HeapMeter:
    """Measures a JVM's heap.

    Parameters
    ----------
    jvm
        Py4J's view of it.
    clock
        Seconds.
    """

    def __init__(self, jvm: Any, clock: Callable[[], float]) -> None:
        factory = jvm.java.lang.management.ManagementFactory
        self._collectors = list(factory.getGarbageCollectorMXBeans())
        self._old = next((pool for pool in factory.getMemoryPoolMXBeans() if "Old Gen" in pool.getName()), None)
        self._clock = clock
        self._samples: deque[tuple[float, float]] = deque()

    def measure(self) -> Heap:
        """The heap now; asks the JVM, which a full one takes its time to answer."""
        collected = sum(one.getCollectionTime() for one in self._collectors) / 1000
        self._samples.append((self._clock(), collected))
        while len(self._samples) > 2 and self._samples[1][0] <= self._samples[-1][0] - WINDOW_SECONDS:
            self._samples.popleft()
        (began, before), (now, after) = self._samples[0], self._samples[-1]
        # Of a part of a minute it is too early to judge.
        collecting = (after - before) / max(now - began, WINDOW_SECONDS)
        unfreed = 0.0
        if self._old is not None:
            left = self._old.getCollectionUsage()
            unfreed = left.getUsed() / left.getMax() if left.getMax() > 0 else 0.0
        return Heap(collecting, unfreed)
