"""How large Spark's plan of a frame is, for tests that it grows no faster than its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

from pyspark.sql import DataFrame

WIDTHS = (10, 20, 40)
"""Columns that a frame is planned with."""
KINDS = ("STRING", "INT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "DECIMAL(10,2)")
NESTED = ("STRUCT<a: INT, b: STRING>", "ARRAY<INT>", "MAP<STRING, INT>", "ARRAY<STRUCT<a: DATE>>")
_SECONDS = 60


def columns(width: int, kinds: tuple[str, ...]) -> dict[str, str]:
    """So many columns, of each of these types in turn."""
    return {f"x{at}": kinds[at % len(kinds)] for at in range(width)}


def sizes(frame: DataFrame) -> tuple[int, int]:
    """Characters of the analysed and of the optimised plan; a plan that takes a minute has no end."""
    said: list[str] = []
    conf = frame.sparkSession.conf
    before = conf.get("spark.sql.debug.maxToStringFields")
    conf.set("spark.sql.debug.maxToStringFields", str(2**20))
    try:
        asked = Thread(target=lambda: said.append(_explained(frame)), daemon=True)
        asked.start()
        asked.join(_SECONDS)
    finally:
        conf.set("spark.sql.debug.maxToStringFields", before or "25")
    assert said, f"there is no plan after {_SECONDS} s"
    _, analysed, optimised, _ = said[0].split("\n== ")
    return len(analysed), len(optimised)


def _explained(frame: Any) -> str:
    return frame._explain_string(extended=True)


def assert_linear(frame: Callable[[int], DataFrame]) -> Mapping[int, tuple[int, int]]:
    """Hold that the plan of a frame of so many columns grows as they do: twice as many, twice as much more.

    Gives the `sizes` by width.
    """
    found: Mapping[int, tuple[int, int]] = {width: sizes(frame(width)) for width in WIDTHS}
    few, some, many = (found[width] for width in WIDTHS)
    for at, plan in enumerate(("analysed", "optimised")):
        assert many[at] - some[at] <= 2.5 * (some[at] - few[at]) + 500, f"the {plan} plan has {found} characters"
    return found
