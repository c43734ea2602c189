"""Spark's settings: what results depend on, and what makes small epochs quick on one machine."""

from __future__ import annotations

import os
from pathlib import Path

from infra.settings import Settings

# Set on every session, also on a cluster that was configured by someone else.
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # SQL text may hold names from data: ${env:HOME} in a folder's name is that name, and no look-up in the engine's
    # environment, where its token is.
    "spark.sql.variable.substitute": "false",
    # A txn stamp left behind must fail the next write: without this Delta skips it silently.
    "spark.databricks.delta.write.txnVersion.autoReset.enabled": "true",
    # Delta refuses to read a version older than its retention though all its files are there: after 60 idle days no
    # join could read what it pins. What is needed stays (infra/oldest_needed.py), and what is gone the guard finds.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
}

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.databricks.delta.autoCompact.enabled": "false",
}


def classic(settings: Settings, master: str, jars: list[Path]) -> dict[str, str]:
    """Return the settings of a session that starts its own driver on `master`."""
    common = SESSION | DELTA | _files(settings, jars) | {"spark.ui.enabled": "false"}
    # A cluster's executors must reach the driver; nothing else may reach a local one.
    return common | _local(settings) if master.startswith("local") else common


def server(settings: Settings, jars: list[Path]) -> dict[str, str]:
    """Return the settings of the warm engine's Spark Connect server."""
    return classic(settings, "local[*]", jars) | {
        "spark.master": "local[*]",
        "spark.app.name": "rivermeet engine",
        # Epochs are batches: a collector without concurrent threads leaves the few cores to them.
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -Xms1g",
        "spark.local.dir": str(settings.engine_home / "scratch"),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(settings.engine_port),
        "spark.connect.grpc.port.maxRetries": "0",
    }


def _files(settings: Settings, jars: list[Path]) -> dict[str, str]:
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.warehouse.dir": str(settings.home / "warehouse"),
    }


def _local(settings: Settings) -> dict[str, str]:
    cores = os.cpu_count() or 1
    return {
        "spark.driver.memory": settings.engine_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        # Each table that a join broadcasts takes a whole page while it is built. By default that is a 64th of the heap
        # or so, 64 MB of 4 GB for a handful of rows, and a plan with dozens of joins runs out of memory.
        "spark.buffer.pageSize": "1m",
        # Spark's default of 200 is 50 times slower on an epoch of a few thousand records.
        "spark.sql.shuffle.partitions": str(max(4, 2 * cores)),
        # Adaptive execution runs every shuffle as a job of its own and plans again after each. On one machine's few
        # partitions that made an epoch of 25,000 records a fifth to a quarter slower; a cluster keeps its own setting.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores),
        # An epoch's plans have hundreds of generated classes, and Spark keeps 100: each task compiled its own again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Up to so many files are looked for one by one, and not by a job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "500",
        # Delta's default of 50 tasks to read a table's log is made for logs of gigabytes.
        "spark.databricks.delta.snapshotPartitions": "1",
    }
