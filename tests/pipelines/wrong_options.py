"""Options that a type checker refuses before we do: without the error its comment would be one too many.

Held by ``make types``.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from rivermeet.pipelines import GlobalTable, JoinWindow, Stream, Table, WindowedTable

WINDOW = JoinWindow("1h", "1h")


def wrong(clicks: Stream, pages: Table, towns: GlobalTable) -> None:
    """What each verb does not take; never called."""
    clicks.join(clicks)  # pyright: ignore[reportArgumentType]
    clicks.join(clicks, window="1h")  # pyright: ignore[reportArgumentType]
    clicks.join(clicks, window=WINDOW, grace="1h")  # pyright: ignore[reportCallIssue]
    clicks.left_join(clicks, window=WINDOW, semantics="2.0")  # pyright: ignore[reportArgumentType]
    clicks.left_join(pages, window=WINDOW)  # pyright: ignore[reportArgumentType]
    clicks.left_join(towns)  # pyright: ignore[reportArgumentType]
    clicks.outer_join(pages, window=WINDOW)  # pyright: ignore[reportArgumentType]
    pages.join(clicks)  # pyright: ignore[reportArgumentType]
    pages.outer_join(pages, foreign_key="n")  # pyright: ignore[reportCallIssue]
    pages.left_join(pages, cache="always")  # pyright: ignore[reportArgumentType]
    pages.one_to_many_join(pages)  # pyright: ignore[reportCallIssue]
    towns.join(towns, key="n", max_task_idle_ms=0)  # pyright: ignore[reportCallIssue]


def right(clicks: Stream, pages: Table, hours: WindowedTable, towns: GlobalTable) -> None:
    """What each takes; never called."""
    clicks.join(clicks, window=WINDOW, eager=True, semantics="kafka-4")
    clicks.left_join(pages, grace="1h", max_task_idle_ms=None)
    clicks.left_join(hours, window_start="n")
    clicks.left_join(towns, key={"k": "n"}, bootstrap="timestamp")
    pages.left_join(pages, foreign_key="n", cache="epoch", fold="due")
    pages.left_join(hours, window_start="n")
    hours.join(hours, window_map="-7d")
    hours.join(pages, foreign_key="n")
    hours.join(pages)
    towns.join(towns, key="n", select={"a": "left.a"})
