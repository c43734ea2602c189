"""Joins of a stream with a table, or a global table: which version of the table's row each answer has seen.

A stream record gives one row at most, with its own key and timestamp. Which version it sees depends on the order of
the two topics, so that each version of the key's row, and "none yet", is an answer that some order gives. All of them
are joined with the record as the operator joins them; the one that gives the row is the version that was seen.

    stream  k A @5      table  k a @1, k b @4      ours    k A-b @5
                                                   theirs  k A-a @5        other_version
    left join                                      theirs  k A-null @5     false_one_sided
    inner join                                     theirs  nothing         looked_up_too_early

| cause | rule, the first that holds |
|---|---|
| unread | the record that triggers our row was not read by the application |
| repeated | the application has our row, and more often, or several rows of one stream record |
| unknown_value | no version of the table's row gives the application's value |
| tie | the application found no row, and a deletion of the table has the head time of the stream record |
| false_one_sided | the application found no row, ours did |
| other_version | the application has seen another version than ours |
| looked_up_too_early | inner: ours has a row, the application none |
| lost_row | left: ours has a row, the application none of this record, which it has in any order |

Head time is that by which topics are interleaved (docs/order.md); on a tie Kafka may take either topic first. Held by
``tests/joins/shadow/test_lookups.py``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermeet.joins.shadow.answers import RECORD, UNREAD, Answers, Compared
from rivermeet.joins.shadow.compare import FALSE_ONE_SIDED, Cause
from rivermeet.joins.shadow.folded import count_rows, count_stream_totals, same_row
from rivermeet.joins.values import join_values, key_type, record, with_mapped_key, with_record
from rivermeet.pipelines import StreamGlobalJoin, StreamTableJoin

LookUp = StreamTableJoin | StreamGlobalJoin
CAUSES = (
    FALSE_ONE_SIDED,
    Cause("other_version", "the look-up saw another version of the table's row", True),
    Cause("looked_up_too_early", "the look-up found no row, where the table's topic had one with an earlier time"),
    Cause("tie", "the look-up and the table's record have the same time: either may go first", True),
)
_X = ("x_partition", "x_offset")


def compare(join: LookUp, answers: Answers) -> Compared:
    """Compare the rows of both answers, by the stream record that each is of."""
    by_row = answers.keep(count_rows(answers))
    bad = answers.keep(by_row.where("copies > 0"))
    seen = answers.keep(_find_seen(join, answers, bad))
    row = F.struct(*(c for c in seen.columns if c not in _X))
    # A row without a stream record is of one side alone: NULL meets nothing.
    missing = seen.where("missing").select(*_X, row.alias("m"))
    extra = seen.where("NOT missing").select(*_X, row.alias("e"))
    at = F.col("trigger")
    places = at["partition"].alias(_X[0]), at["offset"].alias(_X[1])
    answered = answers.ours.where(at["side"] == "left").select(*places, F.lit(True).alias("answered")).distinct()
    lines = missing.join(extra, [*_X], "full_outer").join(answered, [*_X], "left")
    return Compared(_differences(join, answers, lines), count_stream_totals(answers, by_row))


def _differences(join: LookUp, answers: Answers, lines: DataFrame) -> DataFrame:
    ours, theirs = F.col("m").isNotNull(), F.col("e").isNotNull()
    named = lines.withColumns(
        {
            "key": F.coalesce("m.key", "e.key"),
            "ours": F.coalesce("m.ours", "e.ours"),
            "theirs": F.coalesce("e.theirs", "m.theirs"),
            "left": F.coalesce("m.x", "e.x"),
            "right": F.col("m.version"),
            "joined_right": F.col("e.version"),
            "copies": F.coalesce("m.copies", "e.copies"),
            "kind": F.when(ours & theirs, "other").when(ours, "missing").otherwise("extra"),
        }
    )
    nothing = ~F.coalesce(F.col("e.version.value").isNotNull(), F.lit(False))
    tied = F.coalesce(F.col("m.tied_deletion"), F.lit(False))
    found = F.col("m.version.value").isNotNull()
    more = F.col("e.ours").isNotNull() | F.coalesce(F.col("answered"), F.lit(False))
    cause = (
        F.when(answers.is_unread(), UNREAD)
        .when(theirs & ~ours & more, "repeated")
        .when(theirs & F.col("x_offset").isNull(), "unknown_value")
        .when(ours & found & tied & (~theirs | nothing), "tie")
        .when(ours & theirs & found & nothing, "false_one_sided")
        .when(theirs, "other_version")
        .when(found & F.lit(join.how == "inner"), "looked_up_too_early")
        .otherwise("lost_row")
    )
    return named.withColumn("cause", cause)


def _find_seen(join: LookUp, answers: Answers, bad: DataFrame) -> DataFrame:
    """The differing rows, each with the stream record (``x``) and the table's record (``version``) that give it."""
    assert answers.left is not None and answers.right is not None
    facts = _facts(join, answers, bad)
    keys = facts.where(F.col("mapped").isNotNull()).select(F.col("mapped").alias("key")).distinct()
    table = with_record(answers.right.join(keys, "key", "left_semi"), "right")
    versions = table.select(
        F.col("key").alias("mapped"),
        "right",
        F.struct(*RECORD).alias("version"),
        F.struct(F.col("commit"), F.col("order.head").alias("head")).alias("at"),
    )
    # A version that is a deletion is "none", and so is what was before the first.
    none = facts.select(*facts.columns).withColumn("tied_deletion", F.lit(False))
    tied = F.col("right").isNull() & (F.col("x_at") == F.col("at"))
    seen = facts.join(versions, "mapped").withColumn("tied_deletion", tied)
    made = none.unionByName(seen.drop("at"), allowMissingColumns=True).withColumn("value", join_values(join.select))
    wanted = bad.select("key", "value", "timestamp")
    best = F.struct(F.col("c.x.offset").alias("x"), F.coalesce("c.version.offset", F.lit(-1)).alias("version"))
    ties = made.groupBy("x").agg(F.max("tied_deletion").alias("tied_deletion"))
    found = (
        wanted.alias("w")
        .join(made.alias("c"), same_row("w", "c"))
        .groupBy(*(F.col(f"w.{column}").alias(column) for column in wanted.columns))
        .agg(F.max_by(F.struct("c.x", "c.version"), best).alias("of"))
        .select("key", "value", "timestamp", "of.x", "of.version")
        .join(ties, "x", "left")
    )
    placed = bad.alias("b").join(found.alias("f"), same_row("b", "f"), "left")
    return placed.select(
        "b.*",
        F.col("f.x").alias("x"),
        F.col("f.version").alias("version"),
        F.col("f.tied_deletion").alias("tied_deletion"),
        F.col("f.x.partition").alias(_X[0]),
        F.col("f.x.offset").alias(_X[1]),
    )


def _facts(join: LookUp, answers: Answers, bad: DataFrame) -> DataFrame:
    """Stream records of the differing rows, with the key that they look up."""
    assert answers.left is not None and answers.right is not None
    wanted = bad.select("key", "timestamp").distinct()
    same = F.col("l.key").eqNullSafe(F.col("w.key")) & (F.col("l.timestamp") == F.col("w.timestamp"))
    records = answers.left.where(F.col("value").isNotNull()).alias("l").join(wanted.alias("w"), same, "left_semi")
    sided = with_record(records, "left").withColumn("asked", record())
    keyed = with_mapped_key(sided, "asked", join.key, key_type(answers.right), "mapped")
    return answers.keep(
        keyed.select(
            "key",
            "timestamp",
            "left",
            "mapped",
            F.struct(*RECORD).alias("x"),
            F.struct(F.col("commit"), F.col("order.head").alias("head")).alias("x_at"),
        )
    )
