"""Cases of ``rivermeet replay``: records of a join, written by hand; what is wrong with them; the join they declare.

A case that cannot run says why in one sentence, and leaves the others alone. Its join is that of a pipeline over inputs
of text, one partition per case. Keys carry the number of their case, so that cases cannot meet in joins that look into
other partitions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)

from rivermeet.pipelines import DeclarationError, Files, JoinWindow, Node, Pipeline

MOST = 2**60
"""Farthest time and longest duration (ms): sums of a few of them are numbers that Spark can hold."""
Duration = Annotated[StrictInt, Field(ge=-MOST, le=MOST)]
Profile = Literal["3.1", "0.10.2", "0.10.0", "kafka-4"]


class Input(BaseModel):
    """One record, in the order of processing; ``ts`` is in epoch millis."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    side: Literal["left", "right"]
    key: str | None
    value: str | None
    ts: StrictInt = Field(ge=-MOST, le=MOST)

    @model_validator(mode="before")
    @classmethod
    def _absent_is_null(cls, given: Any) -> Any:
        return {"key": None, "value": None, **given} if isinstance(given, dict) else given


class Window(BaseModel):
    """The window of a right record around a left one, in ms."""

    model_config = ConfigDict(frozen=True)

    before_ms: Duration
    after_ms: Duration
    grace_ms: Duration = 0


class Case(BaseModel):
    """One join, its options, and its records."""

    model_config = ConfigDict(frozen=True)

    name: Any = "?"
    join: Literal["stream-stream", "stream-table", "stream-globaltable", "table-table", "fk-table-table", "one-to-many"]
    type: Literal["inner", "left", "outer"] = "inner"
    semantics: Profile = "3.1"
    input: list[Input] = []
    window: Window | None = None
    eager: StrictBool = False
    self: StrictBool = False
    optimize: Literal["none", "all"] = "none"
    left_versioned_ms: Duration | None = None
    right_versioned_ms: Duration | None = None
    table_grace_ms: Duration | None = None
    selector: Literal["key", "fk"] = "key"
    materialized: StrictBool = False
    cache: StrictBool = False
    commit_every: StrictInt = Field(1, ge=1)
    store: Literal["rocksdb"] = "rocksdb"
    emit_interval_ms: Literal[0] | None = None

    @field_validator("semantics", "type", "selector", "optimize", "store", mode="before")
    @classmethod
    def _null_is_default(cls, given: Any, info: Any) -> Any:
        return cls.model_fields[info.field_name].default if given is None else given

    @property
    def numbers(self) -> Mapping[str, int | None]:
        """The case's declared numbers, as the operators name them."""
        window = self.window or Window(before_ms=0, after_ms=0)
        return {
            "window_before": window.before_ms,
            "window_after": window.after_ms,
            "window_grace": window.grace_ms,
            "left_history": self.left_versioned_ms,
            "right_history": self.right_versioned_ms,
            "table_grace": self.table_grace_ms,
            "commit_every": self.commit_every,
        }


def parse(content: str | bytes) -> list[Any]:
    """The cases of a file, as they stand; ValueError where it is no list of cases."""
    try:
        given = json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not JSON: {error}; give a list of cases") from None
    found = given.get("cases") if isinstance(given, dict) else given
    if not isinstance(found, list):
        raise ValueError("no list of cases; give [case, …] or {'cases': [case, …]}")
    return found


def parse_case(given: Any, semantics: str) -> Case | str:
    """The case, under profile ``semantics`` unless it names its own; or what is wrong with it."""
    if not isinstance(given, dict):
        return f"a case is an object with join, type and input, not {type(given).__name__}"
    options = {k: v for k, v in given.items() if v is not None}
    try:
        return Case.model_validate({"semantics": semantics, **options})
    except ValidationError as error:
        return _sentence(error.errors(include_url=False))


def _sentence(problems: Sequence[Any]) -> str:
    first = problems[0]
    place = ".".join(map(str, first["loc"])) or "case"
    given = "" if first["type"] == "missing" else f", not {json.dumps(first['input'], default=str)[:60]}"
    more = f" ({len(problems) - 1} more problems)" if len(problems) > 1 else ""
    return f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}{given}{more}"


KEY = {"c": "INT", "k": "STRING"}
MANY_KEY = {"many_c": "INT", "many_k": "STRING"}
FILES = Files("none", "json", {**KEY, **MANY_KEY, "case": "INT", "v": "STRING", "ts": "BIGINT"})
BEFORE_THE_BAR = "CASE WHEN instr(v, '|') > 1 THEN substring_index(v, '|', 1) END"
JOINED = {"v": "concat(coalesce(left.v, 'null'), '-', coalesce(right.v, 'null'))"}

Group = tuple[Any, ...]


def group_of(case: Case) -> Group:
    """What cases must have in common to run as one join: all but their numbers and records."""
    options = (case.eager, case.self, case.optimize, case.selector, case.materialized, case.cache)
    versioned = (case.left_versioned_ms is not None, case.right_versioned_ms is not None)
    return (case.join, case.type, case.semantics, *options, *versioned, case.table_grace_ms is not None)


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


def refusal(case: Case) -> str | None:
    """Why the case's join cannot be declared, or None."""
    try:
        declare(case, 1)
    except DeclarationError as error:
        return error.problem
    except ValueError as error:
        return str(error)
    if case.self and any(record.side == "right" for record in case.input):
        return "a self-join has left records only, and there is a right one"
    if case.semantics != "3.1":
        for at, record in enumerate(case.input):
            if record.ts < 0:
                return f"input {at} is at {record.ts}: Kafka Streams stops at a negative timestamp"
    if case.semantics == "0.10.0" and case.window is not None and case.window.before_ms < 0:
        return f"before_ms is {case.window.before_ms}: windows of Kafka Streams 0.10 take no negative one"
    if case.semantics == "0.10.0" and (tables := _OF_TABLES.get(case.join)):
        for at, record in enumerate(case.input):
            if record.side in tables and record.key is None:
                return f"input {at} has no key: Kafka Streams 0.10.1 stops there, as its tables take no null keys"
    if case.semantics == "kafka-4" and case.type == "left" and case.table_grace_ms is not None:
        for at, record in enumerate(case.input):
            if record.side == "left" and record.key is None and record.value is not None:
                return f"input {at} has no key: Kafka Streams 4.x stops there, as its grace buffer takes no null keys"
    return None


def declare(case: Case, partitions: int) -> Node:
    """The join of a case, or of several of one group, in so many partitions."""
    pipeline = Pipeline("replay")
    common: dict[str, Any] = {"timestamp": "ts", "value": ["case", "v"]}
    left_kind, right_kind = _KINDS[case.join]
    many = case.join == "one-to-many"
    left = getattr(pipeline, left_kind)(
        "left", FILES, key=list(KEY), **common, **_options(left_kind, partitions, case.left_versioned_ms)
    )
    right = (
        left
        if case.self
        else getattr(pipeline, right_kind)(
            "right",
            FILES,
            key=list(MANY_KEY if many else KEY),
            **common,
            **_options(right_kind, partitions, case.right_versioned_ms),
        )
    )
    if many and case.type != "inner":
        raise DeclarationError("replay", "joined", f"a one-to-many join has no {case.type} form; choose inner")
    verb = left.one_to_many_join if many else getattr(left, _VERBS[case.type])
    return verb(right, "joined", select=JOINED, semantics=case.semantics, **_join_options(case))


_KINDS = {
    "stream-stream": ("stream", "stream"),
    "stream-table": ("stream", "table"),
    "stream-globaltable": ("stream", "global_table"),
    "table-table": ("table", "table"),
    "fk-table-table": ("table", "table"),
    "one-to-many": ("table", "table"),
}
_OF_TABLES = {"stream-table": ("right",), "table-table": ("left", "right")}
_VERBS = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def _options(kind: str, partitions: int, history: int | None) -> Mapping[str, Any]:
    if kind == "global_table":
        return {}
    return {"partitions": partitions, **({"history": history} if kind == "table" else {})}


def _join_options(case: Case) -> dict[str, Any]:
    cached: dict[str, Any] = {"cache": "epoch" if case.cache else None}
    if case.cache and case.semantics in ("kafka-4", "0.10.2"):
        cached["materialized"] = case.materialized
    foreign = {"c": "case", "k": BEFORE_THE_BAR}
    match case.join:
        case "stream-stream":
            if case.window is None:
                raise ValueError("window is missing: a stream-stream join needs before_ms, after_ms and grace_ms")
            window = JoinWindow(case.window.before_ms, case.window.after_ms, case.window.grace_ms)
            variant = {"eager": case.eager, "optimized": case.optimize == "all" and case.self and case.type == "inner"}
            return {"window": window, **(variant if case.semantics == "kafka-4" else {})}
        case "stream-table":
            return {"grace": case.table_grace_ms} if case.table_grace_ms is not None else {}
        case "stream-globaltable":
            return {"key": foreign if case.selector == "fk" else {"c": "c", "k": "k"}, "bootstrap": "timestamp"}
        case "fk-table-table" | "one-to-many":
            cached = cached if case.join == "fk-table-table" else {"cache": cached["cache"]}
            return {"foreign_key": foreign, **cached}
        case _:
            return cached
