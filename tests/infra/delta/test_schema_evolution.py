"""New columns and wider types flow through sources, tables and joins without a rebuild; all else is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rivermeet.assets.epoch.operator_step import OperatorStep
from rivermeet.assets.epoch.run import run_node
from rivermeet.infra.delta.evolution import ShapeChangedError
from rivermeet.infra.delta.io import append, notes, read
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.delta.widening import widens
from rivermeet.infra.engine.session import new_session
from rivermeet.infra.epochs.declaration import DeclarationChangedError
from rivermeet.infra.epochs.inputs import PinnedInputs
from rivermeet.infra.epochs.plan import EpochPlan, InputSlice
from rivermeet.infra.sources.files.ingest import IngestStep
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline, Stream, Table, TimeWindows, expr, maximum
from tests.builders import json_file
from tests.reliability import survived
from tests.world import Record, World

pytestmark = pytest.mark.timeout(600)

KEY = "key STRUCT<id: STRING>"
RECORD = "timestamp BIGINT, partition INT, offset BIGINT, epoch BIGINT"


def write(spark: SparkSession, path: Path, value: str, *values: tuple[Any, ...]) -> int:
    """Append records with these values; the changelog's epoch after it."""
    table = open_table(str(path))
    epoch = (table.transaction_version("w") or 0) + 1 if table is not None else 1
    rows = [((f"k{epoch}-{i}",), v, 0, 0, i, epoch) for i, v in enumerate(values)]
    append(spark.createDataFrame(rows, f"{KEY}, value STRUCT<{value}>, {RECORD}"), str(path), "w", epoch)
    return epoch


def values(spark: SparkSession, path: Path) -> list[dict[str, Any]]:
    return [r.value.asDict() for r in read(spark, str(path)).orderBy("epoch", "offset").collect()]


def features(path: Path) -> set[str]:
    table = open_table(str(path))
    assert table is not None
    return set(table.protocol().reader_features or ())


def test_a_table_grows_with_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "changelog"
    write(spark, path, "n: INT, s: STRING", (1, "a"))
    write(spark, path, "n: INT, x: STRING, s: STRING", (2, "new", "b"))
    assert not features(path), "a new column needs no feature that other readers lack"
    write(spark, path, "n: BIGINT, x: STRING, s: STRING", (2**40, "wide", "c"))
    assert features(path) == {"typeWidening"}
    # Rows of another order, a narrower type and a column less are accepted too.
    write(spark, path, "s: STRING, n: SMALLINT", ("d", 4))
    assert values(spark, path) == [
        {"n": 1, "s": "a", "x": None},
        {"n": 2, "s": "b", "x": "new"},
        {"n": 2**40, "s": "c", "x": "wide"},
        {"n": 4, "s": "d", "x": None},
    ]


def test_deltalake_opens_what_has_grown(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "changelog"
    write(spark, path, "n: INT", (1,))
    write(spark, path, "n: BIGINT, d: TIMESTAMP_NTZ", (2, None))
    table = open_table(str(path))
    assert table is not None
    assert table.transaction_version("w") == 2
    assert [commit["operation"] for commit in table.history()] == ["WRITE", "SET TBLPROPERTIES", "WRITE"]
    assert len(table.file_uris()) == 2
    assert '"long"' in table.schema().to_json()
    table.create_checkpoint()
    assert table.vacuum(dry_run=True) == []


def test_a_table_that_has_grown_can_be_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """As a rebuild does it: any other shape may follow."""
    path = tmp_path / "changelog"
    write(spark, path, "n: INT", (1,))
    write(spark, path, "n: BIGINT", (2,))
    now = spark.sql("SELECT struct('x' AS n, TIMESTAMP_NTZ'2026-01-02 00:00:00' AS at) AS value")
    append(now, str(path), "anew", 1, replace=True)
    assert read(spark, str(path)).selectExpr("value.n").collect() == [("x",)]


TYPES = {
    "TINYINT": "1",
    "SMALLINT": "2",
    "INT": "3",
    "BIGINT": "4",
    "FLOAT": "0.5",
    "DOUBLE": "0.25",
    "DECIMAL(10,2)": "1.5",
    "DECIMAL(22,2)": "2.5",
    "DATE": "DATE'2026-01-01'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ'2026-01-02 00:00:00'",
    "TIMESTAMP": "TIMESTAMP'2026-01-02 00:00:00'",
    "STRING": "'a'",
}


def test_delta_widens_what_we_say_is_wider(spark: SparkSession, tmp_path: Path) -> None:
    """All pairs at once: one column each."""
    pairs = [(then, now) for then, now in product(TYPES, TYPES) if widens(then, now)]
    assert len(pairs) == 16

    def rows(epoch: int, which: int) -> Any:
        parts = ", ".join(f"CAST({TYPES[p[which]]} AS {p[which]}) AS c{i}" for i, p in enumerate(pairs))
        return spark.sql(f"SELECT struct({parts}) AS value, {epoch} AS epoch")

    path = str(tmp_path / "changelog")
    append(rows(1, 0), path, "w", 1)
    append(rows(2, 1), path, "w", 2)
    kinds = read(spark, path).schema["value"].dataType
    assert isinstance(kinds, StructType)
    assert [f.dataType.simpleString().upper() for f in kinds.fields] == [now for _, now in pairs]
    found = read(spark, path).orderBy("epoch").selectExpr("value.*").collect()
    for i, (then, now) in enumerate(pairs):
        wanted = spark.sql(f"SELECT CAST(CAST({TYPES[then]} AS {then}) AS {now}), CAST({TYPES[now]} AS {now})")
        assert (found[0][i], found[1][i]) == tuple(wanted.collect()[0]), (then, now)


@pytest.mark.parametrize(("then", "now"), [("INT", "STRING"), ("BIGINT", "DOUBLE"), ("DATE", "TIMESTAMP")])
def test_another_type_is_refused(spark: SparkSession, tmp_path: Path, then: str, now: str) -> None:
    path = tmp_path / "shop" / "orders" / "changelog"
    write(spark, path, f"n: {then}", (None,))
    with pytest.raises(
        ShapeChangedError, match=rf"column 'value.n' is {then} there and {now} .* rebuild shop --select orders"
    ):
        write(spark, path, f"n: {now}", (None,))
    assert len(values(spark, path)) == 1


# Joins over inputs that are written by hand.

ORDERS = {"id": "STRING", "who": "STRING", "n": "INT", "at": "BIGINT"}
PEOPLE = {"id": "STRING", "name": "STRING", "size": "FLOAT", "at": "BIGINT"}
NEW_ORDERS = {"id": "STRING", "who": "STRING", "via": "STRING", "n": "BIGINT", "at": "BIGINT"}
NEW_PEOPLE = {**PEOPLE, "size": "DOUBLE", "note": "STRING"}
SELECT = {"who": "left.who", "n": "left.n", "name": "right.name", "size": "right.size"}
NEW_SELECT = {**SELECT, "via": "left.via", "note": "right.note"}


@dataclass(frozen=True)
class Shop:
    """The pipeline, as it was or as it is now."""

    orders: Table
    people: Table
    clicks: Node
    joins: Mapping[str, Node]

    @property
    def types(self) -> dict[str, str]:
        """As `World.types`."""
        found = {}
        for node in (self.orders, self.people, self.clicks):
            assert node.source is not None
            columns = ", ".join(f"`{c}`: {e.type}" for c, e in node.source.value.items())
            found[node.name] = f"{KEY}, value STRUCT<{columns}>"
        return found


def shop(orders: Mapping[str, str], people: Mapping[str, str], select: Mapping[str, str], **options: Any) -> Shop:
    pipeline = Pipeline("shop")

    def source(kind: str, name: str, columns: Mapping[str, str]) -> Any:
        files = Files(f"{name}/*.jsonl", "json", columns)
        given = {"key": ["id"], "value": [c for c in columns if c not in ("id", "at")], "timestamp": "at"}
        return getattr(pipeline, kind)(name, files, **given, **{"partitions": 2} | options)

    one, two, clicks = (
        source("table", "orders", orders),
        source("table", "people", people),
        source("stream", "clicks", orders),
    )
    joins = {
        "table-table": one.outer_join(two, "alike", select=select),
        "foreign-key": one.left_join(two, "named", foreign_key="who", select=select),
        "stream-table": clicks.left_join(two, "seen", select=select),
    }
    return Shop(one, two, clicks, joins)


def others(made: Shop, mapped: Mapping[str, str]) -> dict[str, Any]:
    """Nodes of other families over the same inputs, every input before what is made of it."""
    orders, clicks = made.orders, cast(Stream, made.clicks)
    pairs = {name: f"left.{column}" for name, column in mapped.items()} | {"then": "right.n"}
    window = JoinWindow(0, 20)
    kept = clicks.to_table("kept", history="1d")
    big = clicks.filter("n > 5", "big")
    found: dict[str, Any] = {
        "stream-stream": clicks.left_join(clicks, "pairs", window=window, select=pairs),
        "stream-stream, kafka-4": clicks.left_join(clicks, "four", window=window, select=pairs, semantics="kafka-4"),
        "to-table": kept,
        "stream-table, versioned": clicks.left_join(kept, "looked", select=pairs),
        "filter, stream": big,
        "merge": clicks.merge(big, "both"),
        "filter, table": orders.filter("n > 1", "many"),
        "map-values": orders.map_values(mapped, "mapped"),
        "to-stream": orders.to_stream("streamed"),
        "select-key": clicks.select_key({"by": expr("who", "STRING")}, "moved"),
        "aggregate": orders.group_by({"by": expr("who", "STRING")}).aggregate({"n": maximum("n")}, "most"),
        "windowed": clicks.group_by_key().windowed_by(TimeWindows(100)).aggregate({"n": maximum("n")}, "peaks"),
    }
    return found


GROWN = "a new column or a wider type"
OLD, NEW = shop(ORDERS, PEOPLE, SELECT), shop(NEW_ORDERS, NEW_PEOPLE, NEW_SELECT)
Delivery = dict[str, list[Record]]
FIRST: Delivery = {
    "orders": [(("a",), ("x", 1), 1, 0), (("b",), ("y", 2), 2, 1), (("c",), ("x", 3), 3, 0)],
    "people": [(("x",), ("X", 0.1), 1, 1), (("a",), ("A", 0.5), 2, 0), (("b",), ("B", None), 2, 1)],
    "clicks": [(("a",), ("x", 5), 4, 0)],
}
SECOND: Delivery = {
    # a gets what is new, b is deleted, c stays as it was: x's change must find it in its old shape.
    "orders": [(("a",), ("x", "web", 2**40), 10, 0), (("b",), None, 11, 1), (("d",), ("z", None, 4), 12, 1)],
    "people": [(("x",), ("X2", 1e300, "tall"), 13, 1), (("a",), ("A2", 0.5, None), 14, 0)],
    "clicks": [(("a",), ("x", "app", 2**41), 15, 0), (("b",), ("y", None, 7), 16, 1)],
}


def as_new(delivery: Delivery) -> Delivery:
    """Records of before, with nothing in the columns to come and numbers as the wider type reads them."""

    def single(number: float | None) -> float | None:
        return None if number is None else struct.unpack("f", struct.pack("f", number))[0]

    def value(name: str, old: Any) -> Any:
        if old is None:
            return None
        return (old[0], single(old[1]), None) if name == "people" else (old[0], None, old[1])

    return {name: [(k, value(name, v), t, p) for k, v, t, p in rows] for name, rows in delivery.items()}


def epoch(world: World, now: Shop, delivery: Delivery, nodes: Iterable[Node]) -> None:
    world.types = now.types
    for node in (now.orders, now.people, now.clicks):
        world.publish(node, delivery[node.name])
    for node in nodes:
        assert world.run(node) is not None, node.name


def rows_of(world: World, node: Node, table: str = "changelog") -> list[dict[str, Any]]:
    # A hash of a left row is that of the type that it had.
    return [{c: v for c, v in row.items() if c != "left_hash"} for row in world.rows(node, table)]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Callable[[], World]:
    session = new_session(spark)
    return lambda: World(tmp_path_factory.mktemp("world"), spark, session, {}, as_sources_do=True)


@pytest.mark.prove
def test_joins_over_tables_that_have_grown(make: Callable[[], World], spark: SparkSession) -> None:
    """The rows are those of a world in which everything was declared as it is now from the start."""
    grown, always = make(), make()
    for world, first in ((grown, OLD), (always, NEW)):
        epoch(world, first, FIRST if first is OLD else as_new(FIRST), first.joins.values())
        epoch(world, NEW, SECOND, NEW.joins.values())
    for name, node in NEW.joins.items():
        assert rows_of(grown, node) == rows_of(always, node), name
        assert {row["epoch"] for row in rows_of(grown, node)} == {1, 2}, name
        if node.is_table:
            assert rows_of(grown, node, "table") == rows_of(always, node, "table"), name
            kinds = dict(read(spark, grown.runner("shop").paths(node).table).dtypes)
            assert {c: kinds[c] for c in ("n", "size", "via", "note")} == {
                **{"n": "bigint", "size": "double"},
                **{"via": "string", "note": "string"},
            }, name
    survived(GROWN, "flows through, no rebuild", len(NEW.joins))
    found = {row["id"]: row for row in rows_of(grown, NEW.joins["foreign-key"], "table")}
    assert (found["a"]["n"], found["a"]["via"], found["a"]["note"]) == (2**40, "web", "tall")
    assert (found["c"]["n"], found["c"]["via"], found["c"]["note"]) == (3, None, "tall")
    for node in (NEW.orders, NEW.people, *NEW.joins.values()):
        paths = grown.runner("shop").paths(node)
        for path in (paths.changelog, *([paths.table] if node.is_table else [])):
            table = open_table(path)
            assert table is not None
            assert table.file_uris()
            assert [note.epoch for _, note in notes(path)][-1] == 1, path


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_other_families_over_inputs_that_have_grown(make: Callable[[], World]) -> None:
    mapped = {"who": "who", "n": "n"}
    old, new = shop(ORDERS, PEOPLE, SELECT), shop(NEW_ORDERS, NEW_PEOPLE, NEW_SELECT)
    before, after = others(old, mapped), others(new, {**mapped, "via": "via"})
    grown, always = make(), make()
    for world, first, nodes in ((grown, old, before), (always, new, after)):
        epoch(world, first, FIRST if first is old else as_new(FIRST), nodes.values())
        epoch(world, new, SECOND, after.values())
    for name, node in after.items():
        assert rows_of(grown, node) == rows_of(always, node), name
        if node.is_table:
            assert rows_of(grown, node, "table") == rows_of(always, node, "table"), name
    survived(GROWN, "flows through, no rebuild", len(after))


@pytest.mark.prove
def test_a_pinned_table_of_the_old_shape(make: Callable[[], World], spark: SparkSession) -> None:
    """A plan that pinned it before its changelog has grown finds the rows in the shape of now."""
    world = make()
    for now, delivery in ((OLD, FIRST), (NEW, SECOND)):
        world.types = now.types
        world.publish(now.orders, delivery["orders"])
    paths = world.runner("shop").paths(NEW.orders)
    (pin, old), *_ = [(version, note) for version, note in reversed(list(notes(paths.table))) if note.epoch == 1]
    upto = next(notes(paths.changelog))[1].ends
    for position in (old.ends, upto):
        part = InputSlice(version=0, after=position, upto=position, table_version=pin, table_ends=old.ends)
        plan = EpochPlan(pipeline="shop", node="named", incarnation=1, epoch=1, inputs={"left": part})
        nodes: Mapping[str, Node] = {"left": NEW.orders}
        pinned = PinnedInputs(spark, plan, world.runner("shop").tables, nodes)
        found = {r.key.id: r.value.asDict() for r in pinned.table("left", "before").collect()}
        assert found["c"] == {"who": "x", "n": 3, "via": None}
        assert found["a"]["n"] == (1 if position == old.ends else 2**40)
        assert set(found) == ({"a", "b", "c"} if position == old.ends else {"a", "c", "d"})


# Sources over files.


class FromFiles:
    """The pipeline over a folder of files, run node by node."""

    def __init__(self, world: World) -> None:
        self.world, self.data = world, world.root / "data"

    def deliver(self, **rows: Sequence[Mapping[str, Any]]) -> None:
        for name, lines in rows.items():
            folder = self.data / name
            json_file(folder / f"{len([*folder.glob('*')])}.jsonl", *lines)

    def run(self, *nodes: Node) -> list[int | None]:
        """Rows of each node's epoch; None where nothing was new."""
        found = []
        for node in nodes:
            runner = self.world.runner("shop")
            if node.source is not None:
                paths, session = runner.paths(node), lambda: self.world.spark
                step: Any = IngestStep(node, paths, runner.log, str(self.data), session)
            else:
                step = OperatorStep(node, runner.tables)
            result = run_node(runner, step).result
            found.append(None if result is None else result.rows)
        return found

    def table(self, node: Node) -> dict[str, Any]:
        return {row["id"]: row for row in self.world.rows(node, "table")}


@pytest.mark.prove
def test_files_with_more_than_before(make: Callable[[], World]) -> None:
    shop_files = FromFiles(make())
    old, new = OLD.joins["foreign-key"], NEW.joins["foreign-key"]
    shop_files.deliver(
        orders=[{"id": "a", "who": "x", "n": 1, "at": 1}, {"id": "b", "who": "x", "n": 2, "at": 1}],
        people=[{"id": "x", "name": "X", "size": 0.5, "at": 0}],
    )
    assert shop_files.run(OLD.orders, OLD.people, old) == [2, 1, 2]
    # A column is declared, and no file has come yet: the tables get it, or a join that reads it could not run.
    with pytest.raises(
        DeclarationChangedError, match=r"column 'via'.* run it first \(`rivermeet run shop --select orders`\)"
    ):
        shop_files.run(new)
    assert shop_files.run(NEW.orders, NEW.people, new) == [0, 0, 0]
    assert shop_files.run(NEW.orders, NEW.people, new) == [None, None, None]
    shop_files.deliver(
        orders=[{"id": "a", "who": "x", "n": 2**40, "via": "web", "at": 2}],
        people=[{"id": "x", "name": "X", "size": 1e300, "note": "tall", "at": 3}],
    )
    assert shop_files.run(NEW.orders, NEW.people, new) == [1, 1, 3]
    found = shop_files.table(new)
    assert {k: (row["n"], row["via"], row["size"], row["note"]) for k, row in found.items()} == {
        "a": (2**40, "web", 1e300, "tall"),
        "b": (2, None, 1e300, "tall"),
    }
    survived(GROWN, "flows through, no rebuild")


@pytest.mark.slow
def test_an_incompatible_declaration_is_refused_with_the_difference(make: Callable[[], World]) -> None:
    shop_files = FromFiles(make())
    name = "foreign-key"
    shop_files.deliver(
        orders=[{"id": "a", "who": "x", "n": 1, "at": 1}], people=[{"id": "x", "name": "X", "size": 0.5, "at": 0}]
    )
    assert shop_files.run(OLD.orders, OLD.people, OLD.joins[name]) == [1, 1, 1]
    shop_files.deliver(orders=[{"id": "b", "who": "x", "n": 1, "at": 2}])
    renamed = shop(ORDERS, PEOPLE, {**SELECT, "name": "upper(right.name)"})
    narrower, partitions = shop({**ORDERS, "n": "SMALLINT"}, PEOPLE, SELECT), shop(ORDERS, PEOPLE, SELECT, partitions=4)
    for node, difference in (
        (renamed.joins[name], "join 'shop.named' .*: select.name: right.name -> upper\\(right.name\\); run"),
        (narrower.orders, "source 'shop.orders' .*: value.n: INT -> SMALLINT; run"),
        (
            partitions.orders,
            "source 'shop.orders' .*: partitions: 2 -> 4; run `rivermeet rebuild shop --select orders`",
        ),
    ):
        with pytest.raises(DeclarationChangedError, match=difference):
            shop_files.run(node)
        survived("a changed column, type, join or number of partitions", "refused with the difference and the command")
    # Nothing was planned or read: with the change taken back, all goes on.
    assert shop_files.run(OLD.orders, OLD.people, OLD.joins[name]) == [1, None, 1]
