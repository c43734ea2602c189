"""Which comparison is whose: the module ``shadow`` of a node's family, with ``compare(operation, answers)``.

A family without one, such as an operation on one input, is compared by its rows alone, and causes are known as far as
our own rows show them:

| cause | rule, the first that holds |
|---|---|
| unread | the record that triggers our row was not read by the application |
| lost_row | ours has a row, the application none |
| repeated | of a stream: the application has the row, and more often |
| stale_row | of a table: the application's last row is an earlier one of ours |
| unknown_value | ours never has it |

Where the application has read records that we have not, any row of its output may come from them:

| difference | cause |
|---|---|
| extra, stale, other | ``not_read_here``, whatever its rows look like |
| missing, of a table | the same: the application may have read the record that ends the row |
| missing, of a stream | as ever: no record takes back a row of a stream |

A difference is explained where another order of the records of *different* topics gives it, an order that keeps each
topic's own one: Kafka orders records within a partition alone, and the interleaving of topics by timestamp is best
effort with the default ``max.task.idle.ms=0`` (KIP-353, KIP-695; docs/order.md). All others are losses: the application
lacks a row, has one that should have gone, or has one that no records give.

- Joins of tables: the last row of a key depends on the last records of both tables alone, in whatever order they came.
  No difference is explained.
- Joins of streams: which pairs meet depends on the order, once a window's store forgets. A pair that is not there is a
  loss nevertheless.
- Look-ups: which version of the table a record sees depends on the order. A row that is not there is a loss.

The rule of each cause of a family is in its ``shadow.py``. Held by ``tests/joins/shadow``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module

from pyspark.sql import functions as F

from rivermeet.joins.shadow.answers import NOT_READ_HERE, UNREAD, Answers, Compared
from rivermeet.joins.shadow.folded import count_rows, count_stream_totals, count_totals, fold_answers, name_kind
from rivermeet.pipelines import Node, Operation
from rivermeet.pipelines.family import family_of

PROFILE = "kafka-4"


@dataclass(frozen=True)
class Cause:
    """Why the answers differ.

    Attributes
    ----------
    sentence
        What is wrong, in words.
    explained
        Whether it is harmless: the freedom of interleaving explains it, or it is not compared.
    """

    id: str
    sentence: str
    explained: bool = False


SHARED = (
    Cause("unread", "the application has not read the record that causes the row: not compared", True),
    Cause(
        "not_read_here",
        "the application has read records that we have not, and the difference may come of them: not compared",
        True,
    ),
    Cause("lost_row", "all records of the row are there, no order of the topics leaves it out, and it has not come"),
    Cause("unknown_value", "no records of the inputs give this value"),
    Cause("repeated", "a row that is right came more often than once, as after a restart at least once"),
    Cause("stale_row", "an earlier row of the key that was replaced or deleted since"),
)
"""Causes of any family."""
STALE_LEFT = Cause("stale_left", "the row joins a left row that was replaced or deleted since")
FALSE_ONE_SIDED = Cause("false_one_sided", "a row without a partner, for a record that has one")


def causes_of(operation: Operation | None) -> Mapping[str, Cause]:
    """Id to cause: those of all families, and those that the operation's family has in its ``shadow`` module."""
    module = family_of(operation).shadow if operation is not None else None
    own: tuple[Cause, ...] = import_module(module).CAUSES if module is not None else ()
    return {cause.id: cause for cause in (*SHARED, *own)}


def profile_of(operation: Operation) -> str:
    """The profile that an operation is compared by: `PROFILE`, or its own if the family lacks that one."""
    return PROFILE if PROFILE in family_of(operation).operators else operation.semantics


def compare(node: Node, answers: Answers) -> Compared:
    """Compare both answers to a node's operation."""
    operation, whole = node.operation, answers.left is not None and answers.right is not None
    # A windowed row meets one of another key, which no join by the key finds.
    windowed = operation is None or getattr(operation, "window_map", None)
    module = None if operation is None or windowed else family_of(operation).shadow
    if module is not None and whole:
        compared: Compared = import_module(module).compare(operation, answers)
    else:
        compared = compare_table(answers) if node.is_table else compare_stream(answers)
    if not answers.is_ahead:
        return compared
    may = F.lit(True) if node.is_table else F.col("kind") != "missing"
    known = F.col("cause").isin([cause.id for cause in causes_of(operation).values() if cause.explained])
    cause = F.when(may & ~known, NOT_READ_HERE).otherwise(F.col("cause"))
    return replace(compared, differences=compared.differences.withColumn("cause", cause))


def compare_table(answers: Answers) -> Compared:
    """Compare the tables that both answers fold to."""
    by_key = answers.keep(fold_answers(answers))
    bad = answers.keep(by_key.where(~F.col("equal")))
    earlier = answers.ours.select("key", "value").distinct().withColumn("was_ours", F.lit(True))
    wanted = bad.where(F.col("theirs.value").isNotNull()).select("key", F.col("theirs.value").alias("value"))
    found = bad.join(wanted.join(earlier, ["key", "value"]).select("key", "was_ours").distinct(), "key", "left")
    cause = (
        F.when(answers.is_unread(), UNREAD)
        .when(F.col("theirs.value").isNull(), "lost_row")
        .when(F.col("was_ours"), "stale_row")
        .otherwise("unknown_value")
    )
    said = {"kind": name_kind(F.col("was_ours")), "cause": cause, "copies": F.lit(1).cast("bigint")}
    return Compared(found.withColumns(said), count_totals(by_key))


def compare_stream(answers: Answers) -> Compared:
    """Compare the rows of both answers, each as often as it came."""
    by_row = answers.keep(count_rows(answers))
    cause = (
        F.when(answers.is_unread(), UNREAD)
        .when(F.col("missing"), "lost_row")
        .when(F.col("ours").isNotNull(), "repeated")
        .otherwise("unknown_value")
    )
    kind = F.when(F.col("missing"), "missing").otherwise("extra")
    bad = by_row.where("copies > 0").withColumns({"kind": kind, "cause": cause})
    return Compared(bad, count_stream_totals(answers, by_row))
