"""The class by which Spark writes Delta's log on S3, built on this machine from ``ConditionalLogStore.java``.

    Spark and delta-rs both make version 7      one put is answered "created", the other "412": one commit is there
    with Delta's own store for S3               both were answered "created" in 1 of 4 to 25 cases: a commit was lost

It is set as ``spark.delta.logStore.s3.impl`` (``conf.py``). An engine that others start needs its jar, or a store that
creates as safely. Held by ``tests/infra/engine/test_log_store.py``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from infra.engine.java import JavaError, find_java

LOG_STORE = "rivermeet.ConditionalLogStore"
SOURCE = Path(__file__).with_name("ConditionalLogStore.java")
NAME = "rivermeet-log-store"


def log_store_jar(folder: Path, delta: Sequence[Path]) -> Path:
    """The jar of the class in ``folder``, built the first time.

    Parameters
    ----------
    delta
        Jars of Delta, which the class extends.

    Raises
    ------
    JavaError
        If there is no compiler beside the ``java`` that Spark uses.
    """
    source = SOURCE.read_bytes()
    jar = folder / f"{NAME}-{hashlib.sha256(source).hexdigest()[:12]}.jar"
    if jar.exists():
        return jar
    import pyspark

    compiler = find_java().resolve().with_name("javac")
    if not compiler.exists():
        raise JavaError(
            f"tables on S3 need {compiler}, to build {SOURCE.name} once: install the JDK (openjdk-17-jdk-headless) in "
            f"place of the JRE, or put a {NAME}.jar that was built elsewhere into the folder that RIVERMEET_JARS names"
        )
    classpath = os.pathsep.join([f"{Path(pyspark.__file__).parent / 'jars'}/*", *map(str, delta)])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        command = [str(compiler), "--release", "17", "-cp", classpath, "-d", made, str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise JavaError(f"could not build {SOURCE}: {done.stderr.strip()}")
        half = Path(made, "half.jar")
        with zipfile.ZipFile(half, "w") as packed:
            for found in sorted(Path(made).rglob("*.class")):
                packed.write(found, str(found.relative_to(made)))
        half.replace(jar)
    return jar
