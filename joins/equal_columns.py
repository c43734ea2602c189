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
columns are named. Each family says it in its
``family.py``. Held by ``tests/joins/epochs/test_equal_columns.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rivermeet.pipelines import Node, Operation
from rivermeet.pipelines.family import Equal, Needed, Side, family_of


def needed_rows(operation: Operation) -> Needed:
    """Which rows an epoch of an operation can need of its tables."""
    return family_of(operation).needed(operation)


def key_column(column: str) -> str:
    """A key column's path in a record."""
    return f"key.{column}"


def own(side: Side, key: Iterable[str]) -> Equal:
    """Rows that have the key of a record of their own side."""
    return {key_column(column): (side, key_column(column)) for column in key}


def pointing(node: Node, mapper: Mapping[str, str], other: Side) -> Equal:
    """Rows that point to the key of a record of the other side."""
    return {column: (other, key_column(pointed)) for column, pointed in columns(node, mapper).items()}


def columns(node: Node, mapper: Mapping[str, str]) -> Mapping[str, str]:
    """Columns of a node's records to the other table's key columns, where the mapper's expressions are columns."""
    found: dict[str, str] = {}
    for pointed, sql in mapper.items():
        name = sql.strip().removeprefix("`").removesuffix("`")
        if name in node.key:
            found[key_column(name)] = pointed
        elif name in node.value:
            found[f"value.{name}"] = pointed
    return found
