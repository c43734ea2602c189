"""SQL text without a parser: what is a name, a text, a comment or a call; and expressions of the run are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rivermeet.pipelines import DeclarationError, Files, JoinWindow, Pipeline, count, expr, total
from rivermeet.pipelines.sql_text import explain_unrepeatable, names_in
from tests.reliability import handled

REFUSED = [
    "current_date", "CURRENT_DATE()", "current_timestamp", "localtimestamp", "Now ( )", "now/* of the run */()",
    "now -- of the run\n()", "`now`()", "builtin.now()", "curdate()", "unix_timestamp()", "UNIX_TIMESTAMP( /**/ )",
    "rand()", "rand(7)", "randn()", "random()", "randstr(5)", "uniform(1, 5)", "uuid()", "shuffle(tags)",
    "monotonically_increasing_id()", "spark_partition_id()", "input_file_name()", "current_user", "session_user()",
    "user", "current_timezone()", "current_database()", "version()", "java_method('java.util.UUID', 'randomUUID')",
    "reflect('java.util.UUID', 'randomUUID')", "if(id = 'it''s', now(), at)", "id = r'\\' OR at < now()",
    "/* a /* b */ c */ now()", "id = \"a\\\"b\" AND rand() < 0.5", "datediff(current_date, at)", "TIMESTAMP 'now'",
    "DATE'today'", "timestamp \"Tomorrow\"", "TIMESTAMP_NTZ '10:05:00'", "TIMESTAMP 'T10:05'",
    "$$ ' $$ || now()", "transform(tags, t -> uuid())", "$a$ $b$ $a$ || now()",
]  # fmt: skip
TAKEN = [
    "now", "`current_date`", "at > 'now()'", "'now' || \"rand()\"", "left.user", "left.current_date", "-- now()\nid",
    "/* rand() */ id", "/* /* */ rand() */ id", "unix_timestamp(at)", "TIMESTAMP '2026-01-05 10:05:00'",
    "DATE '2026-01-05'", "timestamp", "known(id)", "nowhere()", "id = 'it''s now()'", "r'\\' || id", "`a``now(``b`",
    "uuid", "rand IN (1)", "transform(users, user -> user.id)", "$$ now() $$", "'\\' now()'",
    "to_timestamp(at, 'HH:mm')", "version",
]  # fmt: skip


def test_what_is_of_the_run_is_distinguished_from_names_texts_and_comments() -> None:
    assert [sql for sql in REFUSED if explain_unrepeatable(sql) is None] == []
    assert {sql: why for sql in TAKEN if (why := explain_unrepeatable(sql)) is not None} == {}
    assert explain_unrepeatable("user = 'x'", ["User"]) is None
    assert names_in("coalesce(`b c`, AT) > 'x' -- y") == {"coalesce", "b c", "at"}
    assert explain_unrepeatable("rand() < 1") == (
        "rand() is of the run and not of the record, so that an epoch run again would differ; make it of the record's "
        "columns, such as xxhash64(key)"
    )


def declare(where: str, sql: str) -> None:
    shop = Pipeline("shop")
    files = Files("*", "csv", {"id": "STRING", "user": "STRING", "n": "INT", "at": "BIGINT"})
    options: dict[str, Any] = {"key": ["id"], "timestamp": "at"}
    sources = {
        "timestamp": {"timestamp": sql}, "where": {"where": sql}, "tombstone": {"tombstone": sql},
        "time_zone": {"time_zone": expr(sql, "STRING")}, "key": {"key": {"id": expr(sql, "STRING")}},
        "value": {"value": {"n": expr(sql, "INT")}},
    }  # fmt: skip
    made = shop.stream("s", files, **(options | sources.get(where, {})))
    other, table = shop.stream("t", files, **options), shop.table("u", files, **options)
    everything = shop.global_table("g", files, **options)
    {
        "select": lambda: made.join(other, "j", window=JoinWindow(before="1h", after="1h"), select={"x": sql}),
        "mapper": lambda: made.join(everything, "j", key=sql, select={"x": "left.n"}),
        "filter": lambda: made.filter(sql, "j"),
        "map_values": lambda: made.map_values({"x": sql}, "j"),
        "select_key": lambda: made.select_key({"x": expr(sql, "STRING")}, "j"),
        "aggregate": lambda: table.group_by({"x": expr("user", "STRING")}).aggregate(
            {"n": total(sql), "m": count()}, "j"
        ),
        "check": lambda: shop.check(made, "c", "It holds.", f"SELECT * FROM {{rows}} WHERE value.n < {sql}"),
    }.get(where, lambda: None)()


PLACES = [
    ("timestamp", "timestamp"), ("where", "where"), ("tombstone", "tombstone"), ("time_zone", "time_zone"),
    ("key", "key column 'id'"), ("value", "value column 'n'"), ("select", "select column 'x'"),
    ("mapper", "key column 'id'"),
    ("filter", "where"), ("map_values", "select column 'x'"), ("select_key", "key column 'x'"),
    ("aggregate", "aggregations column 'n'"), ("check", "check 'c'"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "says"), PLACES)
def test_an_expression_of_the_run_is_refused_where_it_is_declared(place: str, says: str) -> None:
    declare(place, "user")
    with pytest.raises(DeclarationError, match=rf"^pipeline 'shop', node '.': {re.escape(says)}[^\n]* is of the run"):
        declare(place, "unix_millis( NOW () )")
    handled("runs", "now(), rand(), uuid(), current_user and the like in an expression", "refused when it is declared")
