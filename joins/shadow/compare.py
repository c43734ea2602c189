"""Which comparison is whose: the module ``shadow`` of a node's family, with ``compare(operation, answers)``.

A family without one is compared by its rows alone (``joins/shadow/rows.py``).

Where the application has read records that we have not, any row of its output may come from them:

| difference | cause |
|---|---|
| extra, stale, other | ``not_read_here``, whatever its rows look like |
| missing, of a table | the same: the application may have read the record that ends the row |
| missing, of a stream | as ever: no record takes back a row of a stream |
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.shadow import rows
from rivermeet.joins.shadow.answers import NOT_READ_HERE, Answers, Compared
from rivermeet.joins.shadow.causes import causes_of
from rivermeet.pipelines import Node, Operation
from rivermeet.pipelines.family import family_of

PROFILE = "kafka-4"


def profile_of(operation: Operation) -> str:
    """The profile that an operation is compared by: `PROFILE`, or its own if the family lacks that one."""
    return PROFILE if PROFILE in family_of(operation).operators else operation.semantics


def compare(node: Node, answers: Answers) -> Compared:
    """Compare both answers to a node's operation."""
    compared = _compare(node, answers)
    return replace(compared, differences=_ahead(node, compared.differences)) if answers.is_ahead else compared


def _ahead(node: Node, differences: DataFrame) -> DataFrame:
    """The same differences, those that records may explain which we have not read marked as such."""
    may = F.lit(True) if node.is_table else F.col("kind") != "missing"
    known = F.col("cause").isin([cause.id for cause in causes_of(node.operation).values() if cause.explained])
    return differences.withColumn("cause", F.when(may & ~known, NOT_READ_HERE).otherwise(F.col("cause")))


def _compare(node: Node, answers: Answers) -> Compared:
    operation, whole = node.operation, answers.left is not None and answers.right is not None
    # A windowed row meets one of another key, which no join by the key finds.
    windowed = operation is None or getattr(operation, "window_map", None)
    module = None if operation is None or windowed else family_of(operation).shadow
    if module is not None and whole:
        return import_module(module).compare(operation, answers)
    return rows.compare_table(answers) if node.is_table else rows.compare_stream(answers)
