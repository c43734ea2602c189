"""The classes by which Spark writes on S3, built on this machine from the Java files beside this one.

    Spark and delta-rs both make version 7      one put is answered "created", the other "412": one commit is there
    with Delta's own store for S3               both were answered "created" in 1 of 4 to 25 cases: a commit was lost
    Spark writes the files of an epoch          each is put once, where it stays
    by Spark's own protocol                     each is put below _temporary, copied, and deleted

``ConditionalLogStore.java`` is set as ``spark.delta.logStore.s3.impl``, ``NamedFilesProtocol.java`` as
``spark.sql.sources.commitProtocolClass`` (``conf.py``). An engine that others start needs their jar, or a store that
creates as safely; without the protocol it renames. Held by ``tests/infra/engine/test_log_store.py`` and
``tests/infra/engine/test_named_files.py``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from rivermeet.infra.engine.java import JavaError, find_java

LOG_STORE = "rivermeet.ConditionalLogStore"
COMMIT_PROTOCOL = "rivermeet.NamedFilesProtocol"
SOURCES = [Path(__file__).with_name(f"{name.rpartition('.')[2]}.java") for name in (LOG_STORE, COMMIT_PROTOCOL)]
NAME = "rivermeet-s3"


def s3_classes_jar(folder: Path, delta: Sequence[Path]) -> Path:
    """The jar of the classes in ``folder``, built the first time.

    Parameters
    ----------
    delta
        Jars of Delta, one of whose classes is extended.

    Raises
    ------
    JavaError
        If there is no compiler beside the ``java`` that Spark uses.
    """
    source = b"".join(source.read_bytes() for source in SOURCES)
    jar = folder / f"{NAME}-{hashlib.sha256(source).hexdigest()[:12]}.jar"
    if jar.exists():
        return jar
    import pyspark

    compiler = find_java().resolve().with_name("javac")
    if not compiler.exists():
        names = " and ".join(source.name for source in SOURCES)
        raise JavaError(
            f"tables on S3 need {compiler}, to build {names} once: install the JDK (openjdk-17-jdk-headless) in "
            f"place of the JRE, or put a {NAME}.jar that was built elsewhere into the folder that RIVERMEET_JARS names"
        )
    classpath = os.pathsep.join([f"{Path(pyspark.__file__).parent / 'jars'}/*", *map(str, delta)])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        command = [str(compiler), "--release", "17", "-cp", classpath, "-d", made, *map(str, SOURCES)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise JavaError(f"could not build {NAME}.jar: {done.stderr.strip()}")
        half = Path(made, "half.jar")
        with zipfile.ZipFile(half, "w") as packed:
            for found in sorted(Path(made).rglob("*.class")):
                packed.write(found, str(found.relative_to(made)))
        half.replace(jar)
    return jar
