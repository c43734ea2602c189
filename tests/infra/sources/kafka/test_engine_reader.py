"""A topic read by Spark's own source lands as it does when the driver reads it, record by record."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rivermeet.infra.kafka.formats.codecs import decoders_of
from rivermeet.infra.kafka.formats.registry import NONE
from rivermeet.infra.kafka.refusals import RecordsGoneError
from rivermeet.infra.settings import Settings, SettingsError
from rivermeet.infra.sources.kafka.consume import consume_slice
from rivermeet.infra.sources.kafka.engine_reader import java_properties, slice_rows
from rivermeet.infra.sources.kafka.landing import SCHEMA, build_rows, landing_of
from rivermeet.infra.sources.kafka.topic import next_slice
from rivermeet.infra.sources.kafka.topic_slice import TopicSlice
from rivermeet.infra.sources.landing_folder import LandingFolder
from rivermeet.infra.sources.places import spark_path
from rivermeet.pipelines import JSON, Avro, Kafka, Node, Number, Pipeline, Raw, Text
from rivermeet.pipelines.reads.kafka import Format
from tests.assets.home import project_in
from tests.infra.sources.kafka.town import Town

pytestmark = pytest.mark.slow

FRAMED = b"\x00\x00\x00\x00\x07" + b'{"n": 4}'
NUMBERS: list[tuple[Format, str, list[Any]]] = [
    (Number("SMALLINT"), ">h", [0, 1, -1, 2**15 - 1, -(2**15)]),
    (Number("INT"), ">i", [0, 1, -1, 2**31 - 1, -(2**31)]),
    (Number("BIGINT"), ">q", [0, 1, -1, 2**63 - 1, -(2**63)]),
]


def planned(town: Town, topic: str) -> TopicSlice:
    node = Pipeline("shop").stream("lines", Kafka(town.named(topic), key=Text(), value=Text()))
    return next_slice(None, town.step(node).state(), "shop.lines")


def both(town: Town, topic: Kafka, found: TopicSlice, folder: Path) -> list[list[Any]]:
    """What lands by either reader, in the order of the epoch."""
    settings = Settings.from_env({"RIVERMEET_KAFKA": town.broker.address})
    by_driver, by_engine = (LandingFolder.create(folder / name, 1, SCHEMA) for name in ("driver", "engine"))
    messages = consume_slice(town.connection, found, "shop.lines")
    by_driver.write(build_rows(messages, found, landing_of(topic, decoders_of(topic, NONE))))
    read = slice_rows(settings, town.world.spark, found, topic, 20.0)
    read.write.mode("append").parquet(spark_path(str(by_engine.folder)))
    spark = town.world.spark
    return [sorted(made.read(spark).collect(), key=lambda row: row[:3]) for made in (by_driver, by_engine)]


def test_the_same_lands(town: Town, tmp_path: Path) -> None:
    town.make("lines", 2)
    town.send("lines", (0, "a", {"n": 1}, 1000), (1, "b", FRAMED, 900), (0, None, None, 950), (0, b"\xff", "x", 2000))
    with town.transaction("lines", (0, "a", {"n": 2}, 3000), (1, "c", {"n": 2}, 3000)) as producer:
        producer.abort_transaction(20)
    with town.transaction("lines", (1, "d", {"n": 3}, 500)) as producer:
        producer.commit_transaction(20)
    town.send("lines", (1, "e", "", 4000), headers=[("h", b"1"), ("h", None)])
    topic = Kafka(town.named("lines"), key=Text(), value=JSON({"n": "INT"}))
    driver, engine = both(town, topic, planned(town, "lines"), tmp_path)
    assert engine == driver
    assert [row["block"] for row in engine if row["partition"] == 1] == [900, 900, 4000]
    assert [row["value_schema"] for row in engine if row["value_schema"] is not None] == [7]


REFUSED = """
import time
from rivermeet.infra.engine.files import EngineFiles
from rivermeet.infra.engine.jars import kafka_source_jars
from rivermeet.infra.engine.process import end
from rivermeet.infra.engine.server import IDLE_LOOK_SECONDS
from rivermeet.infra.engine.session import close, new_session, session
from rivermeet.infra.settings import Settings

settings = Settings.from_env()
spark, table = session(settings), str(settings.home / "others")
try:
    refused = new_session(spark)
    refused.addArtifacts(*map(str, kafka_source_jars(settings)))
    close(refused)
    time.sleep(4 * IDLE_LOOK_SECONDS)  # by then the engine has forgotten its jars
    for _ in range(2):
        spark.range(5).write.format("delta").mode("append").save(table)
    print(spark.read.format("delta").load(table).count())
finally:
    end(EngineFiles(settings.engine_home))
"""


def test_others_go_on_after_a_session_that_read_nothing(tmp_path: Path) -> None:
    """In an engine of its own, whose other clients would fail until it has looked."""
    done = subprocess.run(
        [sys.executable, "-c", REFUSED],
        env=os.environ | {"RIVERMEET_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[-1:] == ["10"], done.stderr


@pytest.mark.prove
@pytest.mark.parametrize(("format", "layout", "values"), NUMBERS, ids=["SMALLINT", "INT", "BIGINT"])
def test_numbers(town: Town, tmp_path: Path, format: Format, layout: str, values: list[int]) -> None:
    town.make("lines")
    payloads = [*(struct.pack(layout, value) for value in values), b"1", None]
    town.send("lines", *((0, b"\x01", payload, 1) for payload in payloads))
    topic = Kafka(town.named("lines"), key=Raw("id"), value=format)
    driver, engine = both(town, topic, planned(town, "lines"), tmp_path)
    assert engine == driver
    assert [row["value_text"] for row in engine] == [*map(str, values), None, None]


def test_epochs_and_what_is_gone(town: Town) -> None:
    town.make("lines")
    node: Node = Pipeline("shop").stream("lines", Kafka(town.named("lines"), key=Text(), value=Text()))
    settings = Settings.from_env({"RIVERMEET_KAFKA": town.broker.address})
    by_engine = partial(slice_rows, settings)
    town.send("lines", (0, "a", "1", 1), (0, "b", "2", 2))
    assert town.run(node, by_engine=by_engine) is not None
    town.send("lines", (0, "c", "3", 3))
    assert town.run(node, by_engine=by_engine) is not None
    assert [key for *_, key, _, _ in town.rows(node)] == [("a",), ("b",), ("c",)]

    def too_late(*given: Any) -> Any:
        town.remove_before("lines", {0: 5})
        return slice_rows(settings, *given)

    town.send("lines", (0, "d", "4", 4), (0, "e", "5", 5), (0, "f", "6", 6))
    with pytest.raises(RecordsGoneError, match="has removed records before they were read"):
        town.run(node, by_engine=too_late)


@pytest.mark.prove
def test_it_is_chosen_by_a_setting(town: Town, settings: Settings, tmp_path: Path) -> None:
    pipeline = Pipeline("shop")
    node = pipeline.stream("lines", Kafka(town.named("lines"), key=Text(), value=Text()))
    project = project_in(tmp_path, settings)
    assert project.source_step(node).by_engine is None  # pyright: ignore
    by_engine = project_in(tmp_path, settings, topic_reader="engine")
    assert by_engine.source_step(node).by_engine is not None  # pyright: ignore
    with pytest.raises(SettingsError, match="RIVERMEET_TOPIC_READER=both cannot be used; give driver or engine"):
        Settings.from_env({"RIVERMEET_TOPIC_READER": "both"})


@pytest.mark.parametrize(("format", "kind"), [(Avro({"n": "INT"}), "Avro"), (Number("DOUBLE"), "DOUBLE")])
def test_formats_that_it_does_not_have(town: Town, format: Format, kind: str) -> None:
    town.make("lines")
    with pytest.raises(SettingsError, match=f"the value of topic 'lines' is {kind}; unset it"):
        slice_rows(
            Settings.from_env({}), town.world.spark, planned(town, "lines"), Kafka("lines", key=Text(), value=format), 1
        )


def test_properties_of_the_java_client(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CERTIFICATE")
    given = {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": 'p"w',
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }
    assert java_properties(given) == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ann" password="p\\"w";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CERTIFICATE",
    }
    with pytest.raises(SettingsError, match="RIVERMEET_KAFKA_LINGER_MS is nothing that"):
        java_properties({"linger.ms": "5"})
