"""The default profile on random histories under windows of every shape, row for row what the references give.

What released Kafka Streams answers is in ``test_recorded_*.py``, and what epochs do in ``test_recorded_in_epochs.py``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.assets.replay.run import Way, at_once, replay
from tests.reference.foreign_key.join import ForeignKeyJoin
from tests.reference.histories import (
    NASTY_FOREIGN_KEY,
    NASTY_GLOBAL,
    NASTY_STREAM_STREAM,
    foreign_key_of,
    random_histories,
    records_of,
)
from tests.reference.records import Join, Record, run
from tests.reference.stream_stream.profile_3_1 import StreamStreamJoin
from tests.reference.tables.stream_global import StreamGlobalJoin

WINDOWS = [(10, 10, 5), (3, 12, 0), (0, 0, 4), (-3, 8, 2), (9, -4, 0), (0, 0, 0), (1_000, 0, 30)]
Made = tuple[dict[str, Any], Join, list[Record]]
JOINS = [
    ("stream-stream", "inner"),
    ("stream-stream", "left"),
    ("stream-stream", "outer"),
    ("stream-globaltable", "inner"),
    ("stream-globaltable", "left"),
    ("fk-table-table", "inner"),
    ("fk-table-table", "left"),
]
SCRIPTS = {
    "stream-stream": ("stream_stream", NASTY_STREAM_STREAM),
    "stream-globaltable": ("stream_global", NASTY_GLOBAL),
    "fk-table-table": ("foreign_key", NASTY_FOREIGN_KEY),
}


def made(join: str, how: str, count: int) -> Iterator[Made]:
    """Cases and the references that answer them; the nasty script first."""
    family, script = SCRIPTS[join]
    rng = random.Random(f"{join} {how}")
    for number, history in enumerate([records_of(script), *random_histories(rng.randrange(10**6), count, family)]):
        case: dict[str, Any] = {"name": f"{join} {how} {number}", "join": join, "type": how}
        case["input"] = [{"side": r.side, "key": r.key, "value": r.value, "ts": r.timestamp} for r in history]
        if join == "stream-stream":
            window = WINDOWS[number % len(WINDOWS)]
            case["window"] = dict(zip(("before_ms", "after_ms", "grace_ms"), window, strict=True))
            yield case, StreamStreamJoin(how, *window), history
        elif join == "stream-globaltable":
            yield {**case, "selector": "fk"}, StreamGlobalJoin(how, foreign_key_of), history
        else:
            yield case, ForeignKeyJoin(how, foreign_key_of), history


def check(spark: SparkSession, join: str, how: str, count: int, way: Way) -> None:
    cases = list(made(join, how, count))
    for (case, reference, history), result in zip(
        cases, replay(spark, [c for c, *_ in cases], "3.1", way), strict=True
    ):
        expected = [(r.key, text(r.value), r.timestamp, r.trigger) for r in run(reference, history)]
        found = [(r["key"], r["value"], r["ts"], r["in"]) for r in result["output"]]
        assert found == expected, case


def text(value: tuple[Any, Any] | None) -> str | None:
    """The value joiner of replay."""
    return value and "-".join("null" if part is None else part for part in value)


@pytest.mark.cell
@pytest.mark.parametrize(("join", "how"), JOINS)
def test_random_histories_at_once(spark: SparkSession, join: str, how: str) -> None:
    check(spark, join, how, 300, at_once)
