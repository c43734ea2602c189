"""``rivermeet replay``: joins on hand-written records, thousands of cases in a few Spark jobs.

Cases that differ only in their records and numbers are one join with a partition for each. By default an operator
sees all records of a case at once; through ``epochs`` they go the way of every node: changelogs, plans, commits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import TYPE_CHECKING, Any

from rivermeet.assets.replay.cases import Case, parse_case
from rivermeet.assets.replay.declared import Group, declare, group_of, refusal
from rivermeet.assets.replay.frames import Place, answers, in_listed_order, numbers_of, records
from rivermeet.infra.engine.interpretation import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermeet.joins.operator import EpochInputs

WORKERS = 2
Rows = list[dict[str, Any]]
Way = Callable[["SparkSession", Sequence[Case]], Mapping[int, Rows]]
"""How the cases of one group are answered: case to rows."""


def replay(spark: SparkSession, given: Sequence[Any], semantics: str, way: Way) -> list[dict[str, Any]]:
    """A result for each case, in their order: its ``output``, or ``error``."""
    from rivermeet.infra.engine.session import close, new_session

    results, runnable = sort_out(given, semantics)
    groups: dict[Group, list[tuple[int, Case]]] = {}
    for at, case in runnable:
        groups.setdefault(group_of(case), []).append((at, case))
    own = local()
    opened: list[SparkSession] = []

    def open_session() -> None:
        own.session = new_session(spark)
        opened.append(own.session)
        for name, value in INTERPRETED.items():
            own.session.conf.set(name, value)

    def answer(members: Sequence[tuple[int, Case]]) -> None:
        found = way(own.session, [case for _, case in members])
        for number, (at, _) in enumerate(members):
            results[at]["output"] = found.get(number, [])

    # Much of a small job is planning, on one core: two groups at a time keep two busy.
    with ThreadPoolExecutor(WORKERS, initializer=open_session) as pool:
        list(pool.map(answer, groups.values()))
    for session in opened:
        close(session)
    return results


def sort_out(given: Sequence[Any], semantics: str) -> tuple[list[dict[str, Any]], list[tuple[int, Case]]]:
    """A result for each case, with ``error`` where it cannot run, and the cases that can, with their places."""
    results: list[dict[str, Any]] = [{"name": g.get("name", "?") if isinstance(g, dict) else "?"} for g in given]
    runnable: list[tuple[int, Case]] = []
    for at, one in enumerate(given):
        case = parse_case(one, semantics)
        problem = case if isinstance(case, str) else refusal(case)
        if problem is not None:
            results[at]["error"] = problem
        elif isinstance(case, Case):
            runnable.append((at, case))
    return results, runnable


def at_once(spark: SparkSession, cases: Sequence[Case]) -> Mapping[int, Rows]:
    """All records of every case in one step of the operator, without any table."""
    from rivermeet.infra.engine.shared_frames import SharedFrames
    from rivermeet.infra.engine.shuffles import fit_shuffles
    from rivermeet.joins.operator import compute

    size = sum(len(case.input) for case in cases)
    fit_shuffles(spark, size)
    shared = SharedFrames("replay", size)
    try:
        numbers = numbers_of(spark, cases)
        operation = declare(widest(cases), len(cases)).operation
        assert operation is not None
        frames = compute(operation, _inputs(spark, cases, numbers, shared.keep))
        return answers(frames.rows, cases[0].join == "one-to-many", "sequence")
    finally:
        shared.release()


def _inputs(spark: SparkSession, cases: Sequence[Case], numbers: Any, keep: Any) -> EpochInputs:
    from rivermeet.joins.operator import EpochInputs
    from rivermeet.joins.order import LEFT, RIGHT

    many, ordered = cases[0].join == "one-to-many", in_listed_order(numbers)
    left = keep(records(spark, places(cases), "left", many))
    # A self-join meets its own records: they are both of its inputs.
    right = left if cases[0].self else keep(records(spark, places(cases), "right", many))
    raw: dict[str, DataFrame] = {"left": left, "right": right}
    return EpochInputs(
        records={"left": keep(ordered(left, LEFT)), "right": keep(ordered(right, RIGHT))},
        open_records=lambda side, slack: raw[side].where("false"),
        earlier=lambda side: raw[side].where("false"),
        table=lambda side, moment: raw[side].where("false"),
        emitted=lambda slack: None,
        keep=keep,
        keep_if_few=keep,
        keep_if_many=keep,
        numbers=numbers,
    )


def places(cases: Sequence[Case]) -> Iterator[Place]:
    """Every record of every case: its case's number, its place there, and itself."""
    for number, case in enumerate(cases):
        for offset, record in enumerate(case.input):
            yield number, offset, record


def widest(cases: Sequence[Case]) -> Case:
    """A case of the group with the longest of all numbers, so that no case's state is cut off."""
    window = cases[0].window
    if window is not None:
        bounds = {n: max(getattr(c.window, n) for c in cases) for n in ("before_ms", "after_ms", "grace_ms")}
        window = window.model_copy(update=bounds)
    names = ("left_versioned_ms", "right_versioned_ms")
    histories = {n: max((v for c in cases if (v := getattr(c, n)) is not None), default=None) for n in names}
    # The longest grace is within the longest history, as each is within its own case's.
    graces = [c.table_grace_ms for c in cases if c.table_grace_ms is not None]
    return cases[0].model_copy(update={"window": window, **histories, "table_grace_ms": max(graces, default=None)})


def compare_rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Rows that only one of two answers to a case has, as lines; an error stands for all rows."""
    one, other = (Counter(_lines(answer)) for answer in (first, second))
    return [f"- {line}" for line in (one - other).elements()] + [f"+ {line}" for line in (other - one).elements()]


def _lines(answer: Mapping[str, Any]) -> list[str]:
    if "error" in answer:
        return [f"error: {answer['error']}"]
    return [
        f"in {row['in']}  {json.dumps(row['key'])}: {json.dumps(row['value'])} @{row['ts']}" for row in answer["output"]
    ]
