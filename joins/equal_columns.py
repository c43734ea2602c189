"""Which rows of a table an epoch can need, by the columns of its records that theirs are equal to.

| operation | rows of | are needed where |
|---|---|---|
| table ⋈ table | either | their key is that of a record of either side |
| foreign key | left | their key is that of a left record, or their foreign key that of a right one |
| one-to-many | right | their key is that of a right record, or their foreign key that of a left one |
| stream ⋈ table | right | their key is looked up by a left record, or is that of a right one |
| filter of a table | left | their key is that of a record |

    orders ⋈ customers on customer_id; new: orders 7 and 9, customer 4       rows of orders with order_id 7 to 9,
                                                                             or with customer_id 4 to 4

All other rows of these sides leave an epoch's rows as they are; of a side that is not named here every row may count:
the right side of a foreign-key join is looked up by foreign keys that left rows had before. Only keys that are plain
columns are named. Held by ``tests/joins/epochs/test_equal_columns.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rivermeet.joins.operator import Side
from rivermeet.pipelines import Filter, ForeignKeyJoin, Node, OneToManyJoin, Operation, StreamTableJoin, TableTableJoin

Equal = Mapping[str, tuple[Side, str]]
"""Column of a table's rows (``key.order_id``) to the side, and the column of its records, that it is equal to."""
Needed = Mapping[Side, Sequence[Equal]]
"""Side to the ways in which a row of its table is needed; a side that is absent is needed as a whole."""


def needed_rows(operation: Operation) -> Needed:
    """Which rows an epoch of an operation can need of its tables."""
    made = FAMILIES.get(type(operation))
    return {} if made is None else made(operation)


def _pairs(made: TableTableJoin) -> Sequence[tuple[str, str]]:
    """Columns of the left key and of the right one that are equal."""
    shifted = {"window_start", "window_end"} if made.window_map else set[str]()
    return [pair for pair in zip(made.left.key, made.right.key, strict=True) if pair[1] not in shifted]


def _table_table(made: TableTableJoin) -> Needed:
    pairs = _pairs(made)
    return {
        "left": [_own("left", made.left.key), {_key(mine): ("right", _key(theirs)) for mine, theirs in pairs}],
        "right": [_own("right", made.right.key), {_key(theirs): ("left", _key(mine)) for mine, theirs in pairs}],
    }


def _foreign_key(made: ForeignKeyJoin) -> Needed:
    if made.semantics == "0.10.2":
        # There, subscriptions and not the rows decide what a right change meets.
        return {}
    return {"left": [_own("left", made.left.key), _pointing(made.left, made.foreign_key, "right")]}


def _one_to_many(made: OneToManyJoin) -> Needed:
    return {"right": [_own("right", made.right.key), _pointing(made.right, made.foreign_key, "left")]}


def _stream_table(made: StreamTableJoin) -> Needed:
    looking: Equal = {_key(found): ("left", column) for column, found in _columns(made.left, made.key).items()}
    return {"right": [_own("right", made.right.key), looking]}


def _filter(made: Filter) -> Needed:
    return {"left": [_own("left", made.input.key)]}


FAMILIES: dict[type[Operation], Callable[[Any], Needed]] = {
    TableTableJoin: _table_table,
    ForeignKeyJoin: _foreign_key,
    OneToManyJoin: _one_to_many,
    StreamTableJoin: _stream_table,
    Filter: _filter,
}
"""Operation to what it needs; any other one is given its tables whole."""


def _key(column: str) -> str:
    return f"key.{column}"


def _own(side: Side, key: Iterable[str]) -> Equal:
    return {_key(column): (side, _key(column)) for column in key}


def _pointing(node: Node, mapper: Mapping[str, str], other: Side) -> Equal:
    return {column: (other, _key(pointed)) for column, pointed in _columns(node, mapper).items()}


def _columns(node: Node, mapper: Mapping[str, str]) -> Mapping[str, str]:
    """Columns of a node's records to the other table's key columns, where the mapper's expressions are columns."""
    found: dict[str, str] = {}
    for pointed, sql in mapper.items():
        name = sql.strip().removeprefix("`").removesuffix("`")
        if name in node.key:
            found[_key(name)] = pointed
        elif name in node.value:
            found[f"value.{name}"] = pointed
    return found
