"""Which comparison is whose: by the family of a node, as operators are (``joins/operator.py``).

To add one: a module with ``compare(operation, answers)``, and its line in `COMPARISONS`. A family without one is
compared by its rows alone (``joins/shadow/rows.py``).
"""

from __future__ import annotations

from importlib import import_module

from joins.operator import OPERATORS
from joins.shadow import rows
from joins.shadow.answers import Answers, Compared
from pipelines import (
    ForeignKeyJoin,
    Node,
    Operation,
    StreamGlobalJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
)

PROFILE = "kafka-4"
COMPARISONS: dict[type[Operation], str] = {
    ForeignKeyJoin: "joins.shadow.tables",
    TableTableJoin: "joins.shadow.tables",
    StreamStreamJoin: "joins.shadow.stream_stream",
    StreamTableJoin: "joins.shadow.lookups",
    StreamGlobalJoin: "joins.shadow.lookups",
}
"""Family to the module that finds the causes of its differences."""


def profile_of(operation: Operation) -> str:
    """The profile that an operation is compared by: `PROFILE`, or its own where the family has no such one."""
    return PROFILE if PROFILE in OPERATORS[type(operation)] else operation.semantics


def compare(node: Node, answers: Answers) -> Compared:
    """Compare both answers to a node's operation."""
    operation, whole = node.operation, answers.left is not None and answers.right is not None
    # A windowed row meets one of another key, which no join by the key finds.
    module = None if operation is None or getattr(operation, "window_map", None) else COMPARISONS.get(type(operation))
    if module is not None and whole:
        return import_module(module).compare(operation, answers)
    return rows.compare_table(answers) if node.is_table else rows.compare_stream(answers)
