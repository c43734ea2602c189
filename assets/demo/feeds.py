"""Pipelines that bring their own source system, and how many deliveries it makes.

To add a feed, write a module with ``STEPS``, ``KEYS`` (the key columns of each kind of file), ``NOT_KNOWN`` (what
stands for null in its files), and ``write(data_root, step)``, and name it here.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from rivermeet.assets.demo import flights as flights_feed
from rivermeet.assets.demo import invoice as invoice_feed
from rivermeet.pipelines.errors import NotFoundError, OptionError

_FEEDS = {"flights": flights_feed, "invoice": invoice_feed}


def steps(pipeline: str) -> int:
    """How many steps the pipeline's feed has; 0 where it has none."""
    return _FEEDS[pipeline].STEPS if pipeline in _FEEDS else 0


def feed_of(pipeline: str) -> ModuleType:
    """The module that writes the pipeline's files."""
    if pipeline not in _FEEDS:
        raise NotFoundError(f"no feed for pipeline '{pipeline}'; there are {', '.join(_FEEDS)}")
    return _FEEDS[pipeline]


def feed(pipeline: str, data_root: Path, step: int | None = None) -> list[str]:
    """Deliver the pipeline's files up to and with a step, from 1; default all. The paths written, below ``data_root``.

    Files that are there stay untouched. Those of earlier steps are written too where they are missing, as sources
    consume files in the order of their names.
    """
    delivers = feed_of(pipeline)
    last: int = delivers.STEPS
    step = last if step is None else step
    if not 1 <= step <= last:
        raise OptionError(f"the feed of '{pipeline}' has steps 1 to {last}, not {step}")
    return [path for n in range(1, step + 1) for path in delivers.write(data_root, n)]
