"""Spark's settings: what results depend on, and what makes small epochs quick on one machine."""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path
from random import randrange

from rivermeet.infra.engine.jars import COMMIT_PROTOCOL, LOG_STORE
from rivermeet.infra.settings import Settings

# Set on every session, also on a cluster that was configured by someone else.
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # SQL text may hold names from data: ${env:HOME} in a folder's name is that name, and no look-up in the engine's
    # environment, where its token is.
    "spark.sql.variable.substitute": "false",
    # Times in nanoseconds are read as the numbers that they are, and no file fails for them
    # (infra/sources/files/parquet.py).
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    # A foreign-key join keeps a hash of each left row; a MAP in one is stored, and so hashed, in the order it came in.
    "spark.sql.legacy.allowHashOnMapType": "true",
    # HotSpot leaves a method above 8,000 bytecodes to its interpreter, and Spark puts all columns of a stage into one
    # of up to 65,535: a source of 250,000 rows was interpreted for most of its time. What is longer runs step by step,
    # in methods that are compiled. Which are: tests/joins/test_plans.py, tests/infra/sources/test_methods.py.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Shared frames are read once or twice. Compressing their numbers took a fifteenth of the engine's processor time of
    # a backlog of two streams, and saved no memory that showed: most of a row is its key and its value.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # A txn stamp left behind must fail the next write: without this Delta skips it silently.
    "spark.databricks.delta.write.txnVersion.autoReset.enabled": "true",
    # Delta refuses to read a version older than its retention though all its files are there: after 60 idle days no
    # join could read what it pins. What is needed stays (infra/epochs/maintenance.py), and what is gone the guard
    # finds.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # Spark's own INT96 is nanoseconds to all but Spark: 9999-12-31 came out of Arrow as 1816, and no reader of Delta
    # but Spark read the table (tests/infra/delta/test_far_times.py).
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A day before 1582-10-15 is the day that was written, in files of whatever writer.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.databricks.delta.autoCompact.enabled": "false",
    # An epoch's files took a third less than with Spark's snappy, in the same time.
    "spark.sql.parquet.compression.codec": "zstd",
}

# What a driver needs that others start, too: docs/scale.md has it for them.
DRIVER = {
    **DELTA,
    # Each table that a join broadcasts takes a whole page while it is built. By default that is a 64th of the heap or
    # so, 64 MB of 4 GB for a handful of rows, and a plan with dozens of joins runs out of memory.
    "spark.buffer.pageSize": "1m",
    # An epoch's plans have hundreds of generated classes, and Spark keeps 100: each task compiled its own again.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Spark frees a small epoch's frames once a garbage collection finds that nobody refers to them, and asks for one
    # every half hour: by then they would have been written to disk, gigabytes of them (infra/engine/shared_frames.py).
    "spark.cleaner.periodicGC.interval": "2min",
    # A Connect server closes a session that asks for nothing for an hour. A run's first session waits as long as its
    # nodes work in theirs: a backlog of a hundred million records ended with INVALID_HANDLE.SESSION_CLOSED. What the
    # nodes of a killed run had open is closed by the next one (infra/epochs/node_lock.py).
    "spark.connect.session.manager.defaultSessionTimeout": "7d",
}


def classic(settings: Settings, master: str, jars: list[Path]) -> dict[str, str]:
    """Return the settings of a session that starts its own driver on `master`.

    What they leave open on a cluster is its own to say, in ``spark-defaults.conf``.
    """
    common = SESSION | DRIVER | _here(settings, jars) | (s3(settings) if settings.on_s3 else {})
    if not master.startswith("local"):
        return common
    # A cluster's executors must reach the driver; nothing else may reach a local one.
    return common | LOOPBACK | few_cores(os.cpu_count() or 1) | _ONE_MACHINE


def s3(settings: Settings) -> dict[str, str]:
    """Return what an engine needs for tables and files on S3; credentials it takes from its environment."""
    wanted = {
        # One name for a table in all libraries: delta-rs and AWS use s3, Hadoop s3a.
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.delta.logStore.s3.impl": LOG_STORE,
        "spark.delta.logStore.s3a.impl": LOG_STORE,
        # Files of an epoch are not renamed into place (infra/delta/staged.py).
        "spark.sql.sources.commitProtocolClass": COMMIT_PROTOCOL,
        # A put of a commit's few lines is made in memory.
        "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
    }
    if settings.s3_region:
        wanted["spark.hadoop.fs.s3a.endpoint.region"] = settings.s3_region
    if settings.s3_endpoint:
        wanted["spark.hadoop.fs.s3a.endpoint"] = settings.s3_endpoint
        # Other stores than AWS have no host of its own for each bucket.
        wanted["spark.hadoop.fs.s3a.path.style.access"] = "true"
        wanted["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(settings.s3_endpoint.startswith("https:")).lower()
    return wanted


def server(settings: Settings, jars: list[Path]) -> dict[str, str]:
    """Return the settings of the warm engine's Spark Connect server."""
    return classic(settings, "local[*]", jars) | {
        "spark.master": "local[*]",
        "spark.app.name": "rivermeet engine",
        # In the order of jobs, Spark's default, a small run's tasks wait until all of a backlog's stage have begun.
        "spark.scheduler.mode": "FAIR",
        # Epochs are batches: a collector without concurrent threads leaves the few cores to them.
        # An epoch's generated classes overflow the JVM's own 240 MB for compiled code: it then throws methods away and
        # compiles them again, all the time, on one of the cores.
        # Compilers take up to half of the processor time of a backlog in a new engine, and a third of that of ten small
        # nodes. With less inlined than the JVM's 15 levels, 2,500 and 325 bytes, these nodes took 0.83 of the
        # processor time, and queries that are compiled for good what they took before.
        "spark.driver.extraJavaOptions": (
            f"-XX:+UseParallelGC {_heap(settings.engine_memory)} -XX:ReservedCodeCacheSize=1g"
            " -XX:MaxInlineLevel=9 -XX:InlineSmallCode=1000 -XX:FreqInlineSize=150"
        ),
        "spark.local.dir": str(settings.engine_home / "scratch"),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(settings.engine_port),
        "spark.connect.grpc.port.maxRetries": "0",
    }


def _heap(memory: str) -> str:
    """Options for a heap of at most that much memory.

    A backlog fills the old generation of a small heap several times while it grows, and each time all of it is read: of
    two streams, computing and audit took 0.94 of the time with 2 GB to begin with for 1. With huge pages, where Linux
    gives them to who asks, it was 0.96 of that. A JVM that may have less than it begins with does not start.
    """
    first = min(2048, int(memory[:-1]) * (1024 if memory[-1] == "g" else 1))
    return f"-Xms{first}m" + (" -XX:+UseTransparentHugePages" if sys.platform == "linux" else "")


def _here(settings: Settings, jars: list[Path]) -> dict[str, str]:
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.warehouse.dir": str(settings.home / "warehouse"),
        "spark.driver.memory": settings.engine_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_ONE_MACHINE = {
    # Adaptive execution runs every shuffle as a job of its own and plans again after each. On one machine's few
    # partitions that made an epoch of 25,000 records a fifth to a quarter slower; a cluster keeps its own setting.
    "spark.sql.adaptive.enabled": "false",
    # Both sides of a join of streams lie by the topics' partitions, in which their equal keys meet. By default Spark
    # shuffles them by all keys of the join, so that more tasks share it, and back to number its rows: a backlog of two
    # streams was computed in 0.84 of the time without, and in 0.93 where all records were in one partition.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}


_POOLS = 256
_session_numbers = count(randrange(_POOLS))


def share_of_cores() -> dict[str, str]:
    """Return what gives a session its own share of the warm engine's cores: a pool of Spark's scheduler.

    Between pools cores are shared evenly, and within one stages run in their order. If all stages shared evenly, the
    two sides of a join of a kept frame would run side by side, and of each of its partitions one task would only wait
    for the other to compute it: a quarter of a backlog of two streams took 1.2 to 1.4 times as long. Spark forgets no
    pool, so there are not arbitrarily many: two runs that have one in common only wait for each other's stages there.

    Held by ``tests/infra/engine/test_fair_shares.py``.
    """
    return {"spark.scheduler.pool": f"session {next(_session_numbers) % _POOLS}"}


def few_cores(cores: int) -> dict[str, str]:
    """Return what spares an epoch of a few thousand records the overhead that a cluster's defaults bring."""
    return {
        # Spark's default of 200 is 50 times slower on an epoch of a few thousand records.
        "spark.sql.shuffle.partitions": str(max(4, 2 * cores)),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores),
        # Up to so many files are looked for one by one, and not by a job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "500",
        # Delta's default of 50 tasks to read a table's log is made for logs of gigabytes.
        "spark.databricks.delta.snapshotPartitions": "1",
    }
