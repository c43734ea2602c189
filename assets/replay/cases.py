"""Cases of ``rivermeet replay``: hand-written records of one join each, and what is wrong with them.

A case that cannot run says why in one sentence, and leaves the others alone.
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
