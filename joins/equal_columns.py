"""The rows of a table that an epoch can need, by columns that must equal columns of its records.

| operation | rows of | are needed where |
|---|---|---|
| table ⋈ table | either | their key is that of a record of either side |
| foreign key | left | their key is that of a left record, or their foreign key that of a right one |
| one-to-many | right | their key is that of a right record, or their foreign key that of a left one |
| stream ⋈ table | right | their key is looked up by a left record, or is that of a right one |
| filter of a table | left | their key is that of a record |

    orders ⋈ customers on customer_id; new: orders 7 and 9, customer 4       rows of orders with order_id 7 to 9,
                                                                             or with customer_id 4 to 4

All other rows of these sides do not affect an epoch's rows; of a side that is not listed every row may be needed:
the right side of a foreign-key join is looked up by earlier foreign keys of left rows. Only keys that are plain
columns are listed. Each family declares this in its
``family.py``. Held by ``tests/joins/epochs/test_equal_columns.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rivermeet.pipelines import Node, Operation
from rivermeet.pipelines.family import Equal, Needed, Side, family_of


def find_needed(operation: Operation) -> Needed:
    """The rows of its tables that an epoch of an operation can need."""
    return family_of(operation).needed(operation)


def key_column(column: str) -> str:
    """A key column's path in a record."""
    return f"key.{column}"


def own(side: Side, key: Iterable[str]) -> Equal:
    """Rows that have the key of a record of their own side."""
    return {key_column(column): (side, key_column(column)) for column in key}


def match_pointers(node: Node, mapper: Mapping[str, str], other: Side) -> Equal:
    """Rows that refer to the key of a record of the other side."""
    return {column: (other, key_column(pointed)) for column, pointed in columns(node, mapper).items()}


def columns(node: Node, mapper: Mapping[str, str]) -> Mapping[str, str]:
    """Columns of a node's records to the other table's key columns, if the mapper's expressions are columns."""
    found: dict[str, str] = {}
    for pointed, sql in mapper.items():
        name = sql.strip().removeprefix("`").removesuffix("`")
        if name in node.key:
            found[key_column(name)] = pointed
        elif name in node.value:
            found[f"value.{name}"] = pointed
    return found
