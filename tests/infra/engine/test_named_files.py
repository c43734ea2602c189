"""Where the engine does not rename, what counts is what it has named, whatever else lies beside it.

    part 1, first attempt     rows, then an error: written, and in no list
    part 1, second attempt    rows: in the list
    parts 0, 2, 3             in the list

The engine's side is ``infra/engine/NamedFilesProtocol.java``, which runs on a local disk as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.delta.staged import Staged, read_staged, stage
from rivermeet.infra.engine.jars import COMMIT_PROTOCOL, jars, s3_classes_jar
from rivermeet.infra.engine.session import close, new_session
from rivermeet.infra.settings import PROJECT, Settings

pytestmark = pytest.mark.slow

WRITER = """
import sys

from pyspark import TaskContext
from pyspark.sql import SparkSession

from rivermeet.infra.delta.staged import stage


def fails_once(batches):
    yield from batches
    task = TaskContext.get()
    if task.partitionId() == 1 and task.attemptNumber() == 0:
        raise RuntimeError("after its rows")


path, jars, protocol = sys.argv[1:]
# Four attempts: a local engine has one by default.
spark = SparkSession.builder.master("local[2,4]").config("spark.jars", jars).config("spark.ui.enabled", "false")
spark = spark.config("spark.sql.sources.commitProtocolClass", protocol).getOrCreate()
staged = stage(spark.range(0, 1000, 1, 4).mapInPandas(fails_once, "id BIGINT"), path, "epoch-1")
print(staged.folder)
"""


@pytest.fixture(scope="module")
def jar(settings: Settings) -> Path:
    return s3_classes_jar(settings.cache / "s3", jars(settings))


@pytest.fixture
def named(spark: SparkSession, jar: Path) -> Iterator[SparkSession]:
    """A session that writes as on S3."""
    session = new_session(spark)
    session.addArtifacts(str(jar))
    session.conf.set("spark.sql.sources.commitProtocolClass", COMMIT_PROTOCOL)
    yield session
    close(session)


def ids(staged: Staged, spark: SparkSession) -> list[int]:
    return sorted(row.id for row in read_staged(staged, spark.range(0)).collect())


def test_a_task_that_failed_is_in_no_list(spark: SparkSession, settings: Settings, jar: Path, tmp_path: Path) -> None:
    path = tmp_path / "changelog"
    command = [sys.executable, "-c", WRITER, str(path), ",".join(map(str, [*jars(settings), jar])), COMMIT_PROTOCOL]
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    own["PYSPARK_PYTHON"] = sys.executable
    done = subprocess.run(command, text=True, capture_output=True, check=False, env=own, cwd=PROJECT)
    assert "after its rows" in done.stderr, "a task has to fail"
    assert done.returncode == 0, done.stderr
    staged = Staged(str(path), done.stdout.strip(), spark.range(0).schema)
    assert len(staged.files) == 4
    assert ids(staged, spark) == list(range(1000))


def test_a_file_that_is_not_named_is_not_read(named: SparkSession, tmp_path: Path) -> None:
    """A task that was given up may end after the one that took its place."""
    staged = stage(named.range(0, 10, 1, 2), str(tmp_path / "changelog"), "epoch-1")
    assert staged is not None
    folder = tmp_path / "changelog" / staged.folder
    parts = sorted(file.name for file in folder.glob("*.parquet"))
    shutil.copy(folder / parts[0], folder / f"late-{parts[0]}")
    assert (folder / "files.txt").read_text().split() == parts
    assert ids(staged, named) == list(range(10))
    assert not (folder / "_temporary").exists()


def test_a_named_file_that_is_gone_is_missed(named: SparkSession, tmp_path: Path) -> None:
    staged = stage(named.range(0, 10, 1, 2), str(tmp_path / "changelog"), "epoch-1")
    assert staged is not None
    gone = next((tmp_path / "changelog" / staged.folder).glob("*.parquet"))
    gone.unlink()
    with pytest.raises(FileNotFoundError, match=rf"{gone.name} was written and is not there"):
        _ = staged.files


def test_other_writes_of_the_engine_rename_as_ever(named: SparkSession, tmp_path: Path) -> None:
    """They are found by looking into the folder, partitions and all."""
    path = str(tmp_path / "other")
    named.range(10).selectExpr("id", "id % 2 AS half").write.partitionBy("half").parquet(path)
    named.range(10, 12).selectExpr("id", "id % 2 AS half").write.mode("append").partitionBy("half").parquet(path)
    assert sorted(row.id for row in named.read.parquet(path).collect()) == list(range(12))
    assert not list(Path(path).rglob("files.txt"))
