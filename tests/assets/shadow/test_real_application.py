"""A real Kafka Streams application: what it loses is found, exactly the rows that plain Python finds in its topics.

Which rows a race takes differs from run to run. Each run is compared with its own topics: the inputs are joined here,
record by record, and the application's topic is read by a consumer of the test's.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.kafka_streams import class_path
from rivermeet.assets.shadow.audit import Shadowed
from rivermeet.infra.delta.lines import open_table
from rivermeet.infra.engine.jars import JarsError
from rivermeet.infra.engine.java import find_java
from rivermeet.infra.settings import Settings
from rivermeet.infra.shadow.application import GroupMissingError, progress
from rivermeet.infra.sources.kafka.topic import topic_state
from rivermeet.pipelines import JoinWindow, Node
from tests.assets.shadow.shop import Shop
from tests.infra.sinks.test_delivery import committed
from tests.infra.sources.kafka.town import Town

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]

PARTITIONS = 3
SECONDS = 120.0
SOURCE = Path(__file__).with_name("Application.java")
Sent = tuple[str, Any, int]
"""Key, value (None: a tombstone) and timestamp."""


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the application."""
    found = find_java()
    javac = shutil.which("javac", path=str(found.parent)) or shutil.which("javac")
    if javac is None:
        pytest.skip("no javac: install a JDK, not only a JRE")
    try:
        jars = class_path()
    except JarsError as error:
        pytest.skip(str(error))
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run([javac, "-cp", jars, "-d", str(classes), str(SOURCE)], check=True)
    return [str(found), "-Xmx512m", "-cp", f"{classes}:{jars}", "Application"]


@contextmanager
def application(town: Town, java: Sequence[str], kind: str, idle: int) -> Iterator[str]:
    """The application as long as the block lasts; its id."""
    id, root = town.named("app"), town.world.root
    topics = [town.named(name) for name in ("left", "right", "out")]
    command = [*java, town.broker.address, id, kind, *topics, str(idle), str(root / "state")]
    with (root / "application.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            yield id
        finally:
            process.kill()
            process.wait()


def send(town: Town, topic: str, records: Sequence[Sent]) -> None:
    """Append records, in the partitions that Java's clients give their keys."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": town.broker.address, "partitioner": "murmur2_random", "linger.ms": 5})
    for key, value, at in records:
        producer.produce(town.named(topic), None if value is None else json.dumps(value), key, timestamp=at)
        producer.poll(0)
    assert producer.flush(30) == 0


def read_all(town: Town, group: str) -> None:
    """Wait until the application has read all that there is, and no answer is on its way."""
    inputs = frozenset(town.named(name) for name in ("left", "right"))
    deadline, quiet = time.monotonic() + SECONDS, 0
    while time.monotonic() < deadline:
        try:
            found = progress(town.connection, group, inputs)
            ends = {name: topic_state(town.connection, name).stable for name in inputs}
            behind = any(found.upto(name, p) < end for name, of in ends.items() for p, end in of.items())
            # Seen twice: between two topics an answer is in nobody's lag.
            quiet = 0 if behind or found.waiting else quiet + 1
        except GroupMissingError:
            quiet = 0
        if quiet == 3:
            return
        time.sleep(0.5)
    log = (town.world.root / "application.log").read_text()
    raise TimeoutError(f"the application has not read all: {log[-2000:]}")


def inputs(town: Town, settings: Settings, kind: str) -> tuple[Shop, Any, Any]:
    """A pipeline over the application's input topics."""
    shop = Shop(town, settings)
    schema = {"fk": "STRING", "n": "INT"} if kind == "table" else {"n": "INT"}
    from rivermeet.pipelines import JSON, Kafka, Text

    for name in ("left", "right", "out"):
        town.make(name, PARTITIONS)
    given = {"left": schema, "right": {"eur": "INT"}}
    reads = {name: Kafka(town.named(name), key=Text("id"), value=JSON(of)) for name, of in given.items()}
    left, right = (getattr(shop.pipeline, kind)(name, source) for name, source in reads.items())
    return shop, left, right


def losses(outcome: Shadowed) -> Counter[tuple[str, str, str | None]]:
    """All that is lost or wrong, from the table of differences: kind, key, value of the row."""
    table = open_table(outcome.path)
    assert table is not None
    explained = {one.cause.id for one in outcome.differences if one.cause.explained}
    found: Counter[tuple[str, str, str | None]] = Counter()
    for line in table.to_pyarrow_dataset().to_table().to_pylist():
        if line["cause"] not in explained:
            row = line["theirs"] if line["kind"] == "extra" else line["ours"]
            found[line["kind"], json.loads(line["key"])["id"], plain(json.loads(row["value"]))] += line["copies"]
    return found


def plain(value: Any) -> str:
    return json.dumps({name: part for name, part in value.items() if part is not None}, sort_keys=True)


def written(town: Town) -> list[tuple[str, str | None, int]]:
    """The application's rows, of each key in their order."""
    rows = sorted(committed(town, town.named("out")), key=lambda m: (m.partition(), m.offset()))
    return [
        (m.key().decode(), None if m.value() is None else plain(json.loads(m.value())), m.timestamp()[1]) for m in rows
    ]


def orders(seed: int, count: int) -> tuple[list[Sent], list[Sent], list[list[tuple[str, Sent]]]]:
    """A load of orders and customers, and bursts of changes of both: orders keep their customer, customers go."""
    draw, at = random.Random(seed), iter(range(1, 1_000_000))
    customers = [f"c{i}" for i in range(count // 10)]
    points = {f"o{i}": draw.choice(customers) for i in range(count)}
    first = [(key, {"fk": fk, "n": draw.randrange(1000)}, next(at)) for key, fk in points.items()]
    second = [(key, {"eur": draw.randrange(1000)}, next(at)) for key in customers]
    bursts: list[list[tuple[str, Sent]]] = []
    for _ in range(4):
        gone = draw.sample(customers, len(customers) // 3)
        burst: list[tuple[str, Sent]] = [("right", (key, None, next(at))) for key in gone]
        touched = [key for key, fk in points.items() if fk in set(gone)]
        burst += [("left", (key, {"fk": points[key], "n": draw.randrange(1000)}, next(at))) for key in touched]
        draw.shuffle(burst)
        back = [("right", (key, {"eur": draw.randrange(1000)}, next(at))) for key in gone if draw.random() < 0.3]
        bursts.append([*burst, *back])
    return first, second, bursts


@pytest.mark.parametrize("raced", [True, False])
def test_a_foreign_key_join(town: Town, settings: Settings, java: list[str], raced: bool) -> None:
    """Orders and customers change at once; or one record's answers are all there before the next comes."""
    shop, left, right = inputs(town, settings, "table")
    select = {"fk": "left.fk", "n": "left.n", "eur": "right.eur"}
    node = left.join(right, "joined", foreign_key="fk", select=select)
    first, second, bursts = orders(7, 3000 if raced else 200)
    with application(town, java, "fk", 0) as group:
        send(town, "right", second)
        send(town, "left", first)
        read_all(town, group)
        for burst in bursts if raced else bursts[:1]:
            for side in ("left", "right") if raced else ("right", "left"):
                send(town, side, [record for name, record in burst if name == side])
                if not raced:
                    read_all(town, group)
        read_all(town, group)
        shop.run()
        outcome = shop.audit(node, town.named("out"), group=group)
        tables: dict[str, dict[str, Any]] = {"left": {}, "right": {}}
        changes = [*(("left", one) for one in first), *(("right", one) for one in second)]
        for name, (key, value, _) in changes + [one for burst in (bursts if raced else bursts[:1]) for one in burst]:
            tables[name][key] = value
        expected = {
            key: plain({**order, **tables["right"][order["fk"]]})
            for key, order in tables["left"].items()
            if order is not None and tables["right"].get(order["fk"]) is not None
        }
        theirs = {key: value for key, value, _ in written(town)}
        live = {key: value for key, value in theirs.items() if value is not None}
        wrong: Counter[tuple[str, str, str | None]] = Counter()
        for key in expected.keys() | live.keys():
            if expected.get(key) != live.get(key):
                kind = "missing" if key not in live else "extra" if key not in expected else "stale"
                wrong[kind, key, live[key] if kind == "extra" else expected[key]] += 1
        assert losses(outcome) == wrong
        assert outcome.keys >= len(expected)
        assert (outcome.ahead, outcome.waiting) == (0, 0)
        if not raced:
            assert outcome.holds, outcome
        causes = {(one.kind, one.cause.id): one.count for one in outcome.differences}
        print(f"foreign key, raced={raced}: {len(expected)} rows, {causes}")
        assert set(causes) <= {("extra", "stale_foreign_key"), ("stale", "stale_foreign_key")}


@pytest.mark.parametrize("raced", [True, False])
def test_a_join_of_streams(town: Town, settings: Settings, java: list[str], raced: bool) -> None:
    """One topic is read to its end before the other comes; or both are there, and a task waits for either."""
    shop, left, right = inputs(town, settings, "stream")
    window = JoinWindow(before="10s", after="10s", grace="5s")
    select = {"n": "left.n", "eur": "right.eur"}
    node: Node = left.left_join(right, "joined", window=window, select=select, semantics="kafka-4")
    draw = random.Random(3)
    sides = {
        side: [(f"k{draw.randrange(40)}", {field: i}, 100 * i + draw.randrange(100)) for i in range(2000)]
        for side, field in (("left", "n"), ("right", "eur"))
    }
    if not raced:
        for side, records in sides.items():
            send(town, side, records)
    with application(town, java, "ss", 0 if raced else 5000) as group:
        for side, records in sides.items() if raced else ():
            send(town, side, records)
            read_all(town, group)
        read_all(town, group)
        shop.run()
        outcome = shop.audit(node, town.named("out"), group=group)
        pairs: Counter[tuple[str, str | None, int]] = Counter(
            (x, plain({**a, **b}), max(t, u))
            for x, a, t in sides["left"]
            for y, b, u in sides["right"]
            if x == y and abs(t - u) <= 10_000
        )
        met = {(key, value["n"]) for key, value, at in sides["left"] if _meets(key, at, sides["right"])}
        theirs = Counter(written(town))
        wrong: Counter[tuple[str, str, str | None]] = Counter()
        for (key, value, _), count in (pairs - theirs).items():
            wrong["missing", key, value] += count
        for (key, value, _), count in theirs.items():
            row = json.loads(value or "{}")
            if "eur" not in row and (key, row["n"]) in met:
                wrong["extra", key, value] += count
        causes = {(one.kind, one.cause.id): one.count for one in outcome.differences}
        print(f"streams, raced={raced}: {sum(pairs.values())} pairs, {causes}")
        assert losses(outcome) == wrong
        assert bool(wrong) == raced
        lost = {("missing", "ran_ahead"), ("extra", "false_one_sided")}
        assert {one for one in causes if one[1] != "still_waiting"} <= (lost if raced else set())


def _meets(key: str, at: int, others: Sequence[Sent]) -> bool:
    return any(key == other and abs(at - u) <= 10_000 for other, _, u in others)
