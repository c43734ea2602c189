"""What a change of a declaration is: flowing or refused, and shown as a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from rivermeet.assets.project import Project
from rivermeet.infra.commit_note import CommitNote
from rivermeet.infra.delta.widening import widens
from rivermeet.infra.epochs.declaration import (
    Change,
    DeclarationChangedError,
    changes,
    changes_of,
    comparable,
    describe_declaration,
    refuse_changed,
    refuse_lacking,
)
from rivermeet.infra.epochs.plan import EpochPlan
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline, TimeWindows, count, expr, total

ORDERS: dict[str, str] = {"id": "STRING", "who": "STRING", "n": "INT", "at": "BIGINT"}
PEOPLE: dict[str, str] = {"id": "STRING", "name": "STRING", "size": "FLOAT", "at": "BIGINT"}
PLAIN = {"who": "right.name", "n": "left.n"}


def source(kind: str = "table", columns: dict[str, str] = ORDERS, name: str = "orders", **options: Any) -> Any:
    files = options.pop("files", Files(f"{name}/*.csv", "csv", columns))
    options = {"key": ["id"], "timestamp": "at"} | options
    return getattr(options.pop("shop", None) or Pipeline("shop"), kind)(name, files, **options)


def two(kind: str = "table", left: Any = None, right: Any = None, **options: Any) -> tuple[Any, Any]:
    shop = Pipeline("shop")
    orders = source(kind, left or ORDERS, shop=shop, **options)
    people = source("table", right or PEOPLE, "people", shop=shop, partitions=options.get("partitions", 4))
    return orders, people


def named(select: Any = None, how: str = "left_join", columns: tuple[Any, Any] = (None, None), **options: Any) -> Node:
    orders, people = two(left=columns[0], right=columns[1])
    return getattr(orders, how)(people, "named", **{"foreign_key": "who", "select": select or PLAIN} | options)


def alike(select: Any = None, columns: tuple[Any, Any] = (None, None), **options: Any) -> Node:
    orders, people = two(left=columns[0], right=columns[1], **options.pop("source", {}))
    return orders.left_join(people, "alike", **{"select": select or PLAIN} | options)


def paired(window: JoinWindow, **options: Any) -> Node:
    shop = Pipeline("shop")
    left = source("stream", shop=shop)
    right = source("stream", PEOPLE, "people", shop=shop)
    return left.left_join(right, "paired", window=window, **{"select": PLAIN} | options)


def viewed(select: Any) -> Node:
    shop = Pipeline("shop")
    people = source("global_table", PEOPLE, "people", shop=shop)
    towns = source("global_table", {"id": "STRING", "town": "STRING", "at": "BIGINT"}, "towns", shop=shop)
    view = people.left_join(towns, "view", key="name", select=select)
    return source("stream", shop=shop).join(view, "seen", key="who", select={"who": "right.name"})


def one(verb: str, *arguments: Any, columns: dict[str, str] = ORDERS, kind: str = "stream", **options: Any) -> Node:
    return getattr(source(kind, columns), verb)(*arguments, "made", **options)


def counted(windows: TimeWindows | None = None, **columns: Any) -> Node:
    stream = source("stream").group_by_key().windowed_by(windows or TimeWindows("5m"))
    return stream.aggregate({"rows": count(), **columns}, "counted")


def wider(columns: dict[str, str], **types: str) -> dict[str, str]:
    return columns | types


def minus(one: str, other: str) -> Callable[[Any, Any], Any]:
    return lambda left, right: getattr(left, one) - getattr(right, other)


@dataclass(frozen=True)
class Case:
    """Two declarations of a node, and the difference; columns that the node gets."""

    then: Node
    now: Node
    flowing: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


NOTE = wider(PEOPLE, note="STRING")
CASES = {
    "the same": Case(named(), named()),
    # Sources.
    "a new column": Case(
        source(),
        source(columns=wider(ORDERS, note="STRING")),
        (
            "value.note: not declared -> STRING",
            "reads.schema.note: not declared -> STRING",
            "value.note.sql: not declared -> `note`",
        ),
        columns=("note",),
    ),
    "a wider type": Case(
        source(), source(columns=wider(ORDERS, n="BIGINT")), ("value.n: INT -> BIGINT", "reads.schema.n: INT -> BIGINT")
    ),
    "the same type by another name": Case(
        source(value={"n": expr("n", "INTEGER")}), source(value={"n": expr("n", "int")})
    ),
    "a narrower type": Case(
        source(columns=wider(ORDERS, n="BIGINT")),
        source(),
        ("reads.schema.n: BIGINT -> INT",),
        ("value.n: BIGINT -> INT",),
    ),
    "another type": Case(
        source(value={"n": expr("n", "INT")}),
        source(value={"n": expr("n", "STRING")}),
        refused=("value.n: INT -> STRING",),
    ),
    "a column less": Case(
        source(value=["who", "n"]),
        source(value=["n"]),
        ("value.who.sql: `who` -> not declared",),
        ("value.who: STRING -> not declared",),
    ),
    "a renamed column": Case(
        source(value={"who": "who"}),
        source(value={"whom": "who"}),
        (
            "value.who.sql: `who` -> not declared",
            "value.whom: not declared -> STRING",
            "value.whom.sql: not declared -> `who`",
        ),
        ("value.who: STRING -> not declared",),
        ("whom",),
    ),
    "columns in another order": Case(source(value=["who", "n"]), source(value=["n", "who"])),
    "how files are read": Case(
        source(value={"n": expr("n", "INT")}, where="n > 0"),
        source(value={"n": expr("n + 1", "INT")}, time_zone="Europe/Rome", tombstone="n = 9"),
        (
            "value.n.sql: n -> n + 1",
            "where: n > 0 -> not declared",
            "time_zone: not declared -> Europe/Rome",
            "tombstone: not declared -> n = 9",
        ),
    ),
    "where the files lie": Case(
        source(),
        source(files=Files("new/*.csv", "csv", ORDERS, null="NA")),
        ("reads.pattern: orders/*.csv -> new/*.csv", "reads.null: not declared -> NA"),
    ),
    "a wider key": Case(
        source(key={"id": expr("id", "INT")}),
        source(key={"id": expr("id", "BIGINT")}),
        refused=("key.id: INT -> BIGINT",),
    ),
    "another key": Case(
        source(key={"id": "id"}, value=["n"]),
        source(key={"id": "who"}, value=["n"]),
        refused=("key.id.sql: `id` -> `who`",),
    ),
    "a key column more": Case(
        source(value=["n"]),
        source(key=["id", "who"], value=["n"]),
        refused=("key.who: not declared -> STRING", "key.who.sql: not declared -> `who`"),
    ),
    "partitions": Case(source(), source(partitions=8), refused=("partitions: 4 -> 8",)),
    "another kind": Case(source(), source("stream"), refused=("kind: table -> stream",)),
    "a table's own history": Case(source(), source(history="1d"), ("history: not declared -> 86400000",)),
    "a description": Case(source(), source(description="All orders.")),
    # Joins.
    "an input's new column": Case(named(), named(columns=(None, NOTE)), ("right.value.note: not declared -> STRING",)),
    "an input's new column, selected": Case(
        named(),
        named(PLAIN | {"note": "right.`note`"}, columns=(None, NOTE)),
        (
            "value.note: not declared -> STRING",
            "select.note: not declared -> right.`note`",
            "right.value.note: not declared -> STRING",
        ),
        columns=("note",),
    ),
    "an input's old column, selected": Case(
        named(),
        named(PLAIN | {"size": "right.size"}),
        ("value.size: not declared -> FLOAT",),
        ("select.size: not declared -> right.size",),
        ("size",),
    ),
    "an expression over an input's new column": Case(
        named(),
        named(PLAIN | {"note": "coalesce(right.note, '-')"}, columns=(None, NOTE)),
        ("value.note: not declared -> ?", "right.value.note: not declared -> STRING"),
        ("select.note: not declared -> coalesce(right.note, '-')",),
        ("note",),
    ),
    "an input's wider type": Case(
        named(),
        named(columns=(wider(ORDERS, n="BIGINT"), wider(PEOPLE, size="DOUBLE"))),
        ("value.n: INT -> BIGINT", "left.value.n: INT -> BIGINT", "right.value.size: FLOAT -> DOUBLE"),
    ),
    "a wider type under remembered hashes": Case(
        named(semantics="0.10.2"),
        named(columns=(wider(ORDERS, n="BIGINT"), wider(PEOPLE, size="DOUBLE")), semantics="0.10.2"),
        ("value.n: INT -> BIGINT", "right.value.size: FLOAT -> DOUBLE"),
        ("left.value.n: INT -> BIGINT",),
    ),
    "another expression": Case(
        named(),
        named({"who": "right.id", "n": "left.n"}),
        refused=("select.who: right.name -> right.id",),
    ),
    "an output column less": Case(
        named(),
        named({"who": "right.name"}),
        refused=("value.n: INT -> not declared", "select.n: left.n -> not declared"),
    ),
    "another type of join": Case(named(), named(how="join"), refused=("how: left -> inner",)),
    "another foreign key": Case(
        named(), named(foreign_key="upper(who)"), refused=("foreign_key.id: who -> upper(who)",)
    ),
    "another profile": Case(named(), named(semantics="kafka-4"), refused=("semantics: not declared -> kafka-4",)),
    "a cache": Case(named(), named(cache="epoch"), refused=("cache: not declared -> epoch",)),
    "waiting": Case(named(max_task_idle_ms=5), named(max_task_idle_ms=None), ("max_task_idle_ms: 5 -> none",)),
    "an input's history": Case(
        alike(), alike(source={"history": "5s"}), refused=("left.history: not declared -> 5000",)
    ),
    "a foreign key in place of the key": Case(
        alike(),
        named(),
        refused=("operation: table-table -> fk-table-table", "foreign_key.id: not declared -> who"),
    ),
    "a window": Case(
        paired(JoinWindow("1s", "2s")),
        paired(JoinWindow("1s", "3s", "1m")),
        refused=("window.after: 2000 -> 3000", "window.grace: 0 -> 60000"),
    ),
    "another input": Case(
        one("map_values", {"n": "n"}),
        source("stream", name="other").map_values({"n": "n"}, "made"),
        refused=("input: orders -> other",),
    ),
    "how a view is resolved": Case(
        viewed({"name": "left.name"}),
        viewed({"name": "left.id"}),
        refused=("right.select.name: left.name -> left.id",),
    ),
    # Functions.
    "the same function": Case(named({"n": minus("n", "size")}), named({"n": minus("n", "size")})),
    # Operations on one input.
    "a new column of what is filtered": Case(
        one("filter", "n > 1"),
        one("filter", "n > 1", columns=wider(ORDERS, note="STRING")),
        ("value.note: not declared -> STRING", "left.value.note: not declared -> STRING"),
        columns=("note",),
    ),
    "another condition": Case(one("filter", "n > 1"), one("filter", "n > 2"), refused=("where: n > 1 -> n > 2",)),
    "a new column, mapped": Case(
        one("map_values", {"n": "n"}),
        one("map_values", {"n": "n", "note": "note"}, columns=wider(ORDERS, note="STRING")),
        (
            "value.note: not declared -> STRING",
            "select.note: not declared -> note",
            "left.value.note: not declared -> STRING",
        ),
        columns=("note",),
    ),
    "the key selected": Case(
        one("select_key", {"who": expr("who", "STRING")}, columns={"id": "STRING", "n": "INT", "at": "BIGINT"}),
        one("select_key", {"who": expr("id", "STRING")}, columns={"id": "STRING", "n": "INT", "at": "BIGINT"}),
        refused=("key.who.sql: who -> id",),
    ),
    "an aggregation": Case(
        counted(n=total("n")),
        counted(n=total("n + 1")),
        refused=("aggregations.n.of: n -> n + 1",),
    ),
    "windows": Case(
        counted(),
        counted(TimeWindows("1h")),
        refused=("windows.size: 300000 -> 3600000", "windows.advance: 300000 -> 3600000"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_changes(case: Case) -> None:
    found = changes_of(case.now, describe_declaration(case.then))
    assert found == Change(case.flowing, case.refused, case.columns)


def test_a_function_is_recognised_by_what_it_does() -> None:
    def made(function: Callable[[Any, Any], Any]) -> str:
        return describe_declaration(named({"n": function}))["select.n"]

    assert made(lambda left, right: left.n) == made(lambda left, right: left.n)
    assert made(lambda left, right: left.n) != made(lambda left, right: left.size)
    assert made(lambda left, right: left.n + 1) != made(lambda left, right: left.n + 2)
    assert made(lambda left, right: left.n in ("a", "b")) != made(lambda left, right: left.n in ("a", "c"))
    assert made(minus("n", "size")) != made(minus("n", "name"))


def test_functions_of_two_versions_of_python_are_not_compared() -> None:
    assert not comparable("function 1 of Python 3.11", "function 2 of Python 3.12")
    assert comparable("function 1 of Python 3.12", "function 2 of Python 3.12")
    assert comparable("function 1 of Python 3.12", "left.n")


def test_every_declared_pipeline_has_a_text_of_its_own() -> None:
    for pipeline in Project.find().pipelines:
        texts = [describe_declaration(node) for node in pipeline.stored]
        assert len({tuple(text.items()) for text in texts}) == len(texts)
        assert all(changes(text, text) == Change() for text in texts)


def test_a_column_may_be_called_anything() -> None:
    odd = wider(ORDERS, **{"a.sql": "INT", "b`c": "INT"})
    found = changes(describe_declaration(source()), describe_declaration(source(columns=odd)))
    assert found.columns == ("`a.sql`", "`b``c`")


def test_a_note_of_before_declarations_were_kept_tells_nothing() -> None:
    assert refuse_changed(source(), CommitNote(incarnation=1, epoch=1, ends={})) == Change()


def test_an_input_must_have_run_to_have_its_new_columns() -> None:
    note = CommitNote(incarnation=1, epoch=3, ends={}, declared=describe_declaration(source()))
    refuse_lacking(source(columns=wider(ORDERS, n="BIGINT")), note)
    with pytest.raises(DeclarationChangedError) as refused:
        refuse_lacking(source(columns=wider(ORDERS, note="STRING")), note)
    assert str(refused.value) == (
        "input 'shop.orders' is declared with column 'note' and has not been run since (epoch 3): "
        "run it first (`rivermeet run shop --select orders`)"
    )


def test_the_refusal_says_what_heals() -> None:
    note = CommitNote(incarnation=1, epoch=7, ends={}, declared=describe_declaration(named()))
    assert not refuse_changed(named(), note).refused
    with pytest.raises(DeclarationChangedError) as refused:
        refuse_changed(named(semantics="kafka-4", foreign_key="upper(who)"), note, 12)
    assert str(refused.value) == (
        "join 'shop.named' was declared differently when its changelog was written (epoch 7, version 12): "
        "foreign_key.id: who -> upper(who); semantics: not declared -> kafka-4; "
        "run `rivermeet rebuild shop --select named`, or take the change back"
    )
    plan = EpochPlan(pipeline="shop", node="named", incarnation=1, epoch=8, declared=note.declared)
    with pytest.raises(DeclarationChangedError, match=r"when epoch 8 was planned: how: left -> inner; run"):
        refuse_changed(named(how="join"), plan)


TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(12,2)", "DECIMAL(22,2)")
OTHERS = ("DECIMAL(12,4)", "DECIMAL(12,5)", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING", "BOOLEAN", "STRUCT<a: INT>")
WIDER: dict[str, Iterable[str]] = {
    "TINYINT": ("SMALLINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(12,2)", "DECIMAL(22,2)"),
    "SMALLINT": ("INT", "BIGINT", "DOUBLE", "DECIMAL(12,2)", "DECIMAL(22,2)"),
    "INT": ("BIGINT", "DOUBLE", "DECIMAL(12,2)", "DECIMAL(22,2)"),
    "BIGINT": ("DECIMAL(22,2)",),
    "FLOAT": ("DOUBLE",),
    "DECIMAL(10,2)": ("DECIMAL(12,2)", "DECIMAL(22,2)", "DECIMAL(12,4)"),
    "DECIMAL(12,2)": ("DECIMAL(22,2)",),
    "DATE": ("TIMESTAMP_NTZ",),
}


def test_wider_types() -> None:
    every = (*TYPES, *OTHERS)
    assert {then: {now for now in every if widens(then, now)} for then in every} == {
        then: set(WIDER.get(then, ())) for then in every
    }
    assert widens("integer", "long")
    assert widens("decimal", "NUMERIC(12, 2)")
    assert not widens("INTEGER", "int")
