"""The test driver: by the reference joins what the operators give, and what it refuses with the way round."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from rivermeet.assets.testing.by_reference import Result
from rivermeet.assets.testing.driver import TestDriver
from rivermeet.assets.testing.expressions import DriverError
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline, TimeWindows, expr
from rivermeet.pipelines.operations import average
from tests.testing.nodes import GROUPS, declared, script

EACH_CHANGE = "around joins"
"""The group for which `make test` starts engines; `make prove` has all."""
Lines = Sequence[tuple[str, Any, Any, int]]


def answers(driver: TestDriver, lines: Lines, pieces: int) -> dict[str, list[Any]]:
    """What every node has made after each piece of the script."""
    found: dict[str, list[Any]] = {}
    bounds = [round(at * len(lines) / pieces) for at in range(pieces + 1)]
    for start, end in pairwise(bounds):
        for source, key, value, at in lines[start:end]:
            driver.pipe(source, key=key, value=value, at=at)
        for name in driver.nodes:
            found.setdefault(name, []).append(driver.read(name))
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "group", [pytest.param(group, marks=() if group == EACH_CHANGE else pytest.mark.prove) for group in GROUPS]
)
def test_the_references_give_what_the_operators_give(spark: Any, group: str) -> None:
    pipeline, lines = declared(group), shuffled()
    with TestDriver(pipeline, engine=True, epochs="one") as engine:
        expected = answers(engine, lines, 2)
        dropped = {node.name: engine.late(node.name) for node in windowed(pipeline)}
    driver = TestDriver(pipeline, epochs="one")
    found = answers(driver, lines, 2)
    for name, rows in expected.items():
        assert found[name] == rows, name
    for name, rows in dropped.items():
        assert driver.late(name) == rows, name
    made = {node.name for node in pipeline.stored if node.operation is not None}
    assert all(any(expected[name]) for name in made), "each node has rows, or nothing was compared"


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_they_do_with_one_record_per_epoch(spark: Any) -> None:
    pipeline, lines = declared("foreign keys"), list(islice(shuffled(), 12))
    with TestDriver(pipeline, engine=True) as engine:
        expected = answers(engine, lines, 1)
    assert answers(TestDriver(pipeline), lines, 1) == expected


def shuffled() -> list[tuple[str, Any, Any, int]]:
    """The scripts one record each by turns, so that both pieces have some of each."""
    by_source: dict[str, list[Any]] = {}
    for line in script():
        by_source.setdefault({"a": "a", "b": "a", "t": "t", "u": "t"}.get(line[0], "o"), []).append(line)
    longest = max(map(len, by_source.values()))
    return [lines[at] for at in range(longest) for lines in by_source.values() if at < len(lines)]


def windowed(pipeline: Pipeline) -> list[Node]:
    """Nodes that drop what is late; a self-join drops a record as often as it takes it, once for each side."""
    made = [(node, node.operation) for node in pipeline.stored if node.operation is not None]
    strict = [(node, operation) for node, operation in made if operation.open_ms and operation.semantics == "3.1"]
    return [node for node, operation in strict if not operation.is_self_join]


# --- without the engine ---

FILES = Files("none", "csv", {"id": "STRING", "who": "STRING", "amount": "DECIMAL(9,2)", "day": "DATE", "at": "BIGINT"})
TWO = Files("none", "csv", {"shop": "STRING", "till": "INT", "sum": "BIGINT", "at": "BIGINT"})


def shop() -> Pipeline:
    """Orders and payments, joined within an hour; tills with a key of two columns."""
    pipeline = Pipeline("shop")
    value = ["who", "amount", "day"]
    orders = pipeline.stream("orders", FILES, key=["id"], value=value, timestamp="at")
    payments = pipeline.stream("payments", FILES, key=["id"], value={"paid": "amount"}, timestamp="at")
    select = {"who": "left.who", "open": "left.amount - coalesce(right.paid, 0)"}
    orders.left_join(payments, "settled", window=JoinWindow("0s", "1h", "10m"), select=select)
    pipeline.table("tills", TWO, key=["shop", "till"], value=["sum"], timestamp="at")
    return pipeline


def test_records_in_rows_out() -> None:
    driver = TestDriver(shop())
    driver.pipe("orders", key="o1", value={"who": "ada", "amount": Decimal("20.00")}, at="2026-01-05T10:00")
    driver.pipe("payments", key="o1", value={"paid": Decimal("5.50")}, at=datetime(2026, 1, 5, 10, 30, tzinfo=UTC))
    paid = 1_767_609_000_000
    assert driver.read("settled") == [("o1", {"who": "ada", "open": Decimal("14.50")}, paid)]
    assert driver.read("settled") == [], "what is read is read once"
    driver.pipe("orders", key="o2", value={"who": "ben", "amount": 7})
    assert driver.read("orders")[-1] == Result("o2", {"who": "ben", "amount": Decimal("7.00"), "day": None}, paid)
    driver.advance("1h")
    assert driver.read("settled") == [], "window and grace are an hour and ten minutes"
    driver.advance("10m")
    assert driver.read("settled") == [("o2", {"who": "ben", "open": Decimal("7.00")}, paid)]
    driver.pipe("payments", key="o2", value={"paid": 7}, at=paid + 1)
    assert driver.late("settled") == [("o2", {"paid": Decimal("7.00")}, paid + 1)]
    assert driver.read("settled") == []


@pytest.mark.parametrize(("epochs", "late"), [("one", 0), ("each record", 2)])
def test_one_epoch_is_in_processing_order_and_each_record_as_it_comes(epochs: Any, late: int) -> None:
    driver = TestDriver(shop(), epochs=epochs)
    driver.pipe("payments", key="x", value={"paid": 1}, at=9_000_000)
    driver.pipe("orders", key="o", value={"amount": 3}, at=4_000_000)
    driver.pipe("payments", key="o", value={"paid": 2}, at=9_000_001)
    driver.pipe("orders", key="o", value={"amount": 3}, at=4_000_001)
    assert len(driver.late("settled")) == late


def test_a_table_is_its_fold() -> None:
    driver = TestDriver(shop())
    driver.pipe("tills", key=("north", 1), value={"sum": 5}, at=3)
    driver.pipe("tills", key={"till": 2, "shop": "north"}, value={"sum": 6})
    driver.pipe("tills", key=("north", 1))
    driver.pipe("tills", value={"sum": 9})
    assert driver.table("tills") == {("north", 2): {"sum": 6}}
    assert [row.key for row in driver.read("tills")] == [("north", 1), ("north", 2), ("north", 1), None]


@pytest.mark.parametrize(
    ("piped", "says"),
    [
        ({"node": "settled", "key": "o"}, "'settled' is computed; records are piped into a source: orders, payments"),
        ({"node": "order", "key": "o"}, "pipeline 'shop' has no 'order'; it has"),
        ({"node": "orders", "key": ("o", 1)}, "'orders' has the key columns id, and ('o', 1) is given"),
        ({"node": "tills", "key": ("north", None)}, "key column 'till' is null; give key=None for no key"),
        (
            {"node": "orders", "key": "o", "value": {"whom": "a"}},
            "'orders' has no column 'whom'; there are who, amount",
        ),
        ({"node": "orders", "key": "o", "value": {"day": "monday"}}, "column 'day' is date32[day]"),
        ({"node": "orders", "key": 7}, "column 'id' is string"),
        ({"node": "orders", "key": "o", "value": 7}, "value is 7; give its columns: who, amount, day"),
        ({"node": "orders", "key": "o", "at": -1}, "a record at -1 ms lies before 1970"),
        ({"node": "orders", "key": "o", "at": "noon"}, "at is 'noon', no ISO date or timestamp"),
    ],
)
def test_what_cannot_be_piped(piped: dict[str, Any], says: str) -> None:
    node = piped.pop("node")
    driver = TestDriver(shop())
    with pytest.raises(ValueError, match=re.escape(says)):
        driver.pipe(node, **piped)
    assert driver.read("orders") == []


def test_a_stream_has_no_table() -> None:
    with pytest.raises(DriverError, match="'settled' is a stream, and a stream is not folded; read its records"):
        TestDriver(shop()).table("settled")
    with pytest.raises(DriverError, match="give 'each record' or 'one'"):
        TestDriver(shop(), epochs="two")  # pyright: ignore[reportArgumentType]


def upper(left: Any, right: Any) -> Any:
    """A value joiner of Spark's columns."""
    return left


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ({"w": "upper(left.who)"}, "shop.joined: column 'w' is 'upper(left.who)', and 'UPPER(left.who)' may mean"),
        (
            {"w": "CAST(left.amount AS INT)"},
            "'CAST(left.amount AS INT)' may mean something else to DuckDB",
        ),
        ({"w": upper}, "column 'w' is a function of Spark's columns; make the driver with engine=True"),
        ({"w": "left.whom"}, "shop.joined: Binder Error"),
    ],
)
def test_what_needs_the_engine_is_refused_with_the_way_round(select: Any, says: str) -> None:
    pipeline = shop()
    orders, payments = (pipeline.node(name) for name in ("orders", "payments"))
    orders.join(payments, "joined", window=JoinWindow(0, 1), select=select)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(DriverError, match=re.escape(says)):
        TestDriver(pipeline)


def test_other_needs_of_the_engine() -> None:
    pipeline = shop()
    tills: Any = pipeline.node("tills")
    tills.left_join(tills, "idle", select={"n": "left.sum"}, max_task_idle_ms=5)
    with pytest.raises(DriverError, match="max_task_idle_ms=5 waits by the wall clock"):
        TestDriver(pipeline)
    pipeline = shop()
    orders: Any = pipeline.node("orders")
    orders.select_key({"till": expr("who", "INT")}, "cast")
    with pytest.raises(DriverError, match="'till' of the key is int32, and its expression gives string"):
        TestDriver(pipeline)
    pipeline = shop()
    orders = pipeline.node("orders")
    orders.group_by_key().windowed_by(TimeWindows("1d")).aggregate({"mean": average("amount")}, "means")
    with pytest.raises(DriverError, match="'mean' is the mean of a DECIMAL"):
        TestDriver(pipeline)


def test_the_declared_pipeline_stays_as_it_is() -> None:
    pipeline = shop()
    driver = TestDriver(pipeline)
    driver.pipe("orders", key="o", value={}, at=1)
    assert [node.partitions for node in pipeline.nodes] == [4, 4, 4, 4]


def test_no_engine_and_no_java_take_part() -> None:
    program = """
import sys
import psutil
from tests.testing.test_driver import TestDriver, shop
driver = TestDriver(shop())
driver.pipe("orders", key="o", value={"amount": 1}, at=1)
driver.advance("3h")
print(len(driver.read("settled")), [m for m in ("pyspark.sql.session", "delta") if m in sys.modules])
print(psutil.Process().children(recursive=True))
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert found.stdout.splitlines() == ["1 []", "[]"], found.stderr


PAGE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"


def test_the_guides_example() -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    names["test_an_order_that_nobody_pays_leaves_when_its_window_has_closed"]()
