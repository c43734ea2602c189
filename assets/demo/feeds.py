"""Pipelines that bring their own source system, and how many deliveries it makes.

To add a feed, write a module with ``STEPS``, ``KEYS`` (the key columns of each kind of file), ``NOT_KNOWN`` (what
stands for null in its files), and ``write(data_root, step)``, and name it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from rivermeet.assets.demo import flights as flights_feed
from rivermeet.assets.demo import invoice as invoice_feed
from rivermeet.pipelines.errors import NotFoundError, OptionError

_FEEDS = {"flights": flights_feed, "invoice": invoice_feed}


def steps(pipeline: str) -> int:
    """How many steps the pipeline's feed has; 0 where it has none."""
    return _FEEDS[pipeline].STEPS if pipeline in _FEEDS else 0


def keys(pipeline: str) -> Mapping[str, Sequence[str]]:
    """Key columns of each kind of file that the pipeline's feed delivers."""
    return _named(pipeline).KEYS


def not_known(pipeline: str) -> str | None:
    """What stands for null in the feed's files; None where null itself does."""
    return _named(pipeline).NOT_KNOWN


def _named(pipeline: str) -> ModuleType:
    if pipeline not in _FEEDS:
        raise NotFoundError(f"no feed for pipeline '{pipeline}'; there are {', '.join(_FEEDS)}")
    return _FEEDS[pipeline]


def feed(pipeline: str, data_root: Path, step: int | None = None) -> list[str]:
    """Deliver the pipeline's files up to and with a step.

    Parameters
    ----------
    pipeline
        Name of a pipeline that has a feed.
    data_root
        The data folder (setting ``RIVERMEET_DATA``).
    step
        Last step to deliver, from 1; default all. Files of earlier steps are written too where they are missing, for
        sources consume files in the order of their names.

    Returns
    -------
    list of str
        Files written, relative to ``data_root``. Files that are there stay untouched and are not listed.
    """
    delivers = _named(pipeline)
    last = steps(pipeline)
    step = last if step is None else step
    if not 1 <= step <= last:
        raise OptionError(f"the feed of '{pipeline}' has steps 1 to {last}, not {step}")
    return [path for n in range(1, step + 1) for path in delivers.write(data_root, n)]
