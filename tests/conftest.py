from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis

from rivermeet.infra.engine import session as sessions
from rivermeet.infra.engine import warm as engine
from rivermeet.infra.engine.fit import INTERPRETED
from rivermeet.infra.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.infra.sources.delta.shed import Shed
    from tests.infra.sources.kafka.town import Town
    from tests.infra.sources.postgres.base import Base
    from tests.servers.broker import Broker
    from tests.servers.postgres import PostgresServer
    from tests.servers.schema_registry import SchemaRegistry

# What passes once passes again: a change is not judged by another draw. New draws: HYPOTHESIS_PROFILE=default.
# How long a draw takes says how busy the machine is.
hypothesis.register_profile("same", derandomize=True, suppress_health_check=[HealthCheck.too_slow])
hypothesis.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

HOME = "RIVERMEET_TEST_HOME"
MAY_BE_SKIPPED = "may be skipped: "
"""Starts the reason of a test that CI may skip."""
MADE = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Choose one home, and so one warm engine, for all processes of a test run; a given one is kept."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs in its background like this, and what is started here would not hear Ctrl-C either.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput") or HOME in os.environ:
        return
    config.stash[MADE] = Path(tempfile.mkdtemp(prefix="rivermeet-tests-"))
    os.environ[HOME] = str(config.stash[MADE])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop that engine and remove the home."""
    made = config.stash.get(MADE, None)
    if made is not None:
        engine.stop(settings_of(made))
        shutil.rmtree(made, ignore_errors=True)
        del os.environ[HOME]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What `make test` leaves out is slow, and so are epochs over Delta: ``-m "not slow"`` names all that is quick.

    What asks for a session is marked too: ``make versions`` leaves it out.
    """
    for item in items:
        marked = item.get_closest_marker("prove") or item.get_closest_marker("bench")
        fixtures = {"world", "shed", "make", "broker", "schema_registry", "postgres"}
        if marked or fixtures & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.engine)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where all that tests need is installed (CI), one that is skipped has failed, unless it says why it may be."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr)
        if MAY_BE_SKIPPED not in reason:
            report.outcome, report.longrepr = "failed", f"skipped in CI: {reason}"
    return report


def settings_of(home: Path) -> Settings:
    """The user's settings, but for where tables, data and the engine are."""
    unset = {"RIVERMEET_TABLES", "RIVERMEET_DATA", "RIVERMEET_ENGINE_PORT"}
    env = {k: v for k, v in os.environ.items() if k not in unset}
    # Tests look into tables of all kinds, after each run; when a fold is due is for tests/infra/epochs/test_folds.py.
    return Settings.from_env(env | {"RIVERMEET_HOME": str(home), "RIVERMEET_FOLD": "run"})


@pytest.fixture(scope="session")
def settings() -> Iterator[Settings]:
    """A home of the tests' own: the user's tables and engine are not touched.

    ``RIVERMEET_TEST_HOME`` names one that is kept, with its engine warm, from run to run.
    """
    yield settings_of(Path(os.environ[HOME]))
    sessions.release()


@pytest.fixture(scope="session", autouse=True)
def interpreted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sessions on the warm engine compile no queries, but in `make prove`."""
    # Queries of a few hundred rows: compiling them took a third of the processor time of all tests. What runs on
    # `local[2]`, in a process of its own, or is marked `prove` compiles them as a user's run does.
    remote = sessions._remote
    if request.config.option.markexpr == "prove":
        yield
        return

    def made(channel: object) -> SparkSession:
        spark = remote(channel)  # pyright: ignore[reportArgumentType]
        for name, value in INTERPRETED.items():
            spark.conf.set(name, value)
        return spark

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sessions, "_remote", made)
        yield


@pytest.fixture(scope="session")
def spark(settings: Settings) -> SparkSession:
    return sessions.session(settings)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for all tests of a process; each makes topics of its own."""
    pytest.importorskip("confluent_kafka")
    from rivermeet.infra.engine.jars import JarsError
    from tests.servers.broker import running

    try:
        with running() as started:
            yield started
    except JarsError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[SchemaRegistry]:
    """One schema registry for all tests of a process; each writes under subjects of its own."""
    from rivermeet.infra.engine.jars import JarsError
    from tests.servers.schema_registry import registry_running

    try:
        with registry_running() as started:
            yield started
    except JarsError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """One S3 server for all tests of a process; each has a bucket of its own."""
    pytest.importorskip("moto")
    from tests.object_store import serving

    with serving() as endpoint:
        yield endpoint


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL on S3 for tables of one test, and the environment in which all clients reach it."""
    from tests.object_store import environment, make_bucket

    for name, value in environment(s3_server).items():
        monkeypatch.setenv(name, value)
    bucket = f"b-{uuid4().hex}"
    make_bucket(s3_server, bucket)
    return f"s3://{bucket}/lake"


@pytest.fixture
def unreliable(s3: str, s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """All clients of the test take a way on which a sixth of requests comes to harm."""
    from tests.faulty_s3 import between

    with between(s3_server, seed=7) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        yield endpoint


@pytest.fixture
def town(broker: Broker, spark: SparkSession, tmp_path: Path) -> Town:
    """Topics and tables of one test."""
    return _town(broker, spark, tmp_path)


@pytest.fixture
def beside(broker: Broker, spark: SparkSession, tmp_path: Path) -> Town:
    """Tables beside those of ``town``."""
    return _town(broker, spark, tmp_path / "beside")


@pytest.fixture
def shed(spark: SparkSession, tmp_path: Path) -> Shed:
    """Delta tables of one test, and the nodes that read them."""
    from rivermeet.infra.engine.session import new_session
    from tests.infra.sources.delta.shed import Shed
    from tests.world import World

    return Shed(World(tmp_path, spark, new_session(spark), {}))


def _town(broker: Broker, spark: SparkSession, root: Path) -> Town:
    from rivermeet.infra.engine.session import new_session
    from tests.infra.sources.kafka.town import Town
    from tests.world import World

    return Town(World(root, spark, new_session(spark), {}), broker)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of a process; each makes a database of its own."""
    pytest.importorskip("psycopg")
    from tests.servers.postgres import NoPostgresError, running

    try:
        with running() as started:
            yield started
    except NoPostgresError as error:
        pytest.skip(str(error))


@pytest.fixture
def base(postgres: PostgresServer, spark: SparkSession, tmp_path: Path) -> Iterator[Base]:
    """A database and tables of one test."""
    from rivermeet.infra.engine.session import new_session
    from tests.infra.sources.postgres.base import Base
    from tests.world import World

    made = Base(World(tmp_path, spark, new_session(spark), {}), postgres)
    try:
        yield made
    finally:
        made.close()
