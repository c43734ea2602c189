"""The planted violations once more, with keys and values of each type that a declaration may name.

What stands in ``n``, ``a``, ``b``, ``who`` and ``id`` is one of a few names and numbers, and rules compare it alone. So
each stands for a value of another type, always the same one: of what broke a rule before, it breaks it still.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from sqlglot import exp

from rivermeet.expectations.judge.xxhash64 import as_bigint
from rivermeet.expectations.results import Judged, Part
from rivermeet.infra.delta.scan import register_rows
from rivermeet.pipelines import Node
from tests.expectations.clean import CLEAN, Epoch
from tests.expectations.nodes import Row, _schema, made_of


def _first(*special: Any, then: Callable[[int], Any]) -> Callable[[int], Any]:
    """The special values first, then what a number gives."""
    return lambda place: special[place] if place < len(special) else then(place)


def _instant(place: int) -> datetime:
    return datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC) + timedelta(days=place % 3, microseconds=place)


_DAYS = _first(date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), then=lambda n: date(1582, 10, 1 + n % 30))
_MAPS = _first({}, {"a": None}, then=lambda n: {"a": n, "é": -n})
KINDS: Mapping[str, Callable[[int], Any]] = {
    "TINYINT": lambda n: n * 37 % 256 - 128,
    "SMALLINT": lambda n: (32_767 - n) * (-1) ** n,
    "INT": lambda n: (2**31 - 1 - n) * (-1) ** n,
    "BIGINT": lambda n: (2**63 - 1 - n) * (-1) ** n,
    "FLOAT": _first(float("nan"), float("inf"), -0.0, then=lambda n: n / 4),
    "DOUBLE": _first(float("nan"), float("-inf"), 5e-324, 1e308, 0.1 + 0.2, 0.3, -0.0, then=lambda n: n / 3),
    "DECIMAL(10,2)": lambda n: Decimal(n * 7 - 9_999_999_999).scaleb(-2),
    "DECIMAL(38,10)": lambda n: Decimal(f"{(10**37 + n) * (-1) ** n}E-10"),
    "STRING": _first("", "é", "e\u0301", "straße", "STRASSE", "😀", "a", "a ", "A", then=lambda n: f"{n}ж"),
    "BINARY": _first(b"", b"\x00", b"\x00\x00", b"\xff", then=lambda n: b"\x80" * n),
    "DATE": _DAYS,
    "TIMESTAMP": _first(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC), then=_instant),
    "TIMESTAMP_NTZ": _first(datetime(1, 1, 1), then=lambda n: _instant(n).replace(tzinfo=None)),
    "STRUCT<b: BOOLEAN, `a b`: STRUCT<d: DATE, m: DECIMAL(5,1)>>": lambda n: {
        "b": (None, True, False)[n % 3],
        "a b": None if n < 3 else {"d": _DAYS(n // 3), "m": Decimal(n // 3).scaleb(-1)},
    },
    "ARRAY<DOUBLE>": _first([], [None], [float("nan")], [None, None], then=lambda n: [n / 3, None]),
    "ARRAY<STRUCT<s: STRING, t: TIMESTAMP>>": _first(
        [], [None], then=lambda n: [{"s": None, "t": _instant(n)}, {"s": "é", "t": None}]
    ),
    "MAP<STRING, INT>": _MAPS,
    "STRUCT<m: MAP<STRING, INT>, i: INT>": lambda n: {"m": _MAPS(n % 5), "i": n},
}
"""Type to its values by a number; of two numbers they differ."""


def is_map(kind: str) -> bool:
    """Whether a type is none of a key."""
    return "MAP" in kind


_SEEN: dict[Any, int] = {}
"""Names and numbers of `tests.expectations.clean` and ``planted``, each with its place."""


@dataclass(frozen=True)
class TypedNode:
    """A node whose keys and values are of a type."""

    name: str
    kind: str

    @property
    def columns(self) -> frozenset[str]:
        """Columns of that type: all but those that a node calculates with."""
        keys = set() if is_map(self.kind) else {"who", "id"}
        stay = {"grouped": {"id"}, "counted": {"n"}, "sold": {"n"}}.get(self.name, set())
        return frozenset({"a", "b", "n", *keys} - stay)

    @property
    def is_possible(self) -> bool:
        """Whether a node can be declared so: a MAP is no key, and ``n`` is one that other tables are found by."""
        points = self.name.startswith(("named", "owned", "pets", "grouped"))
        return not (points and is_map(self.kind))

    def node(self) -> Node:
        """A copy of the node, and of all that it is made of, with keys of the type."""
        made = copy.deepcopy(CLEAN[self.name][0])
        for one in made.pipeline.nodes:
            cast(dict[str, str], one.key).update({c: self.kind for c in one.key if c in self.columns})
        return made

    def judged(self, node: Node, epoch: Epoch) -> Judged:
        """What `tests.expectations.nodes.judged_on` gives, of typed rows."""
        checked: dict[str, int | None] = {name: len(rows) for name, rows in epoch.items()}
        checked["read"] = sum(len(epoch.get(s) or epoch.get(f"new_{s}", ())) for s in ("left", "right"))
        made = {name: made_of(node, name, self.rows(node, name, epoch[name])) for name in epoch}
        return Judged({name: (lambda name=name: made[name]) for name in made}, checked)

    def rows(self, node: Node, relation: str, rows: Sequence[Row]) -> Part:
        """A relation's rows in Arrow."""
        columns = "|".join(sorted(self.columns))
        schema = re.sub(
            rf"\b({columns})(:?) (STRING|INT)\b",
            lambda found: f"{found[1]}{found[2]} {self.kind}",
            _schema(node, relation),
        )
        kind = _arrow(exp.DataType.build(f"STRUCT<{schema}>", dialect="databricks"))
        typed = pa.array([_filled(self.value(row), kind) for row in rows], kind)
        table = pa.Table.from_arrays([typed.field(i) for i in range(kind.num_fields)], [f.name for f in kind])
        if "made_for" in table.column_names:
            values = table["made_for"].combine_chunks()
            hashes = as_bigint(values).to_pylist()
            marks = [None if none else h for h, none in zip(hashes, values.is_null().to_pylist(), strict=True)]
            table = table.append_column("left_hash", pa.array(marks, pa.int64())).drop_columns(["made_for"])
        return typed_part(table)

    def value(self, row: Any) -> Any:
        """A row with values of the type in place of its names and numbers."""
        if not isinstance(row, dict):
            return row
        return {
            name: KINDS[self.kind](_SEEN.setdefault(one, len(_SEEN)))
            if name in self.columns and one is not None and not isinstance(one, dict)
            else self.value(one)
            for name, one in row.items()
        }


def typed_part(table: pa.Table) -> Part:
    """Rows in Arrow, which both engines take."""
    kind = from_arrow_schema(table.schema)
    return Part(
        "typed",
        "typed",
        lambda connection: f"SELECT * FROM {register_rows(table, connection)}",
        lambda spark: spark.createDataFrame(table, kind),
    )


def _filled(value: Any, kind: pa.DataType) -> Any:
    """A STRUCT with all of its fields."""
    if value is None or not pa.types.is_struct(kind):
        return value
    return {field.name: _filled(value.get(field.name), field.type) for field in kind}


_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}


def _arrow(kind: exp.DataType) -> pa.DataType:
    """Arrow's type of one that sqlglot has parsed."""
    parts = kind.expressions
    match kind.this.name:
        case "STRUCT":
            return pa.struct([(part.this.name, _arrow(part.args["kind"])) for part in parts])
        case "ARRAY":
            return pa.list_(_arrow(parts[0]))
        case "MAP":
            return pa.map_(_arrow(parts[0]), _arrow(parts[1]))
        case "DECIMAL":
            return pa.decimal128(*(int(part.name) for part in parts))
        case name:
            return _ARROW[name]
