"""Jars of Delta, of S3 and of Spark's Kafka source: from a folder that the user names, or fetched once.

The classes by which Spark writes on S3 are built on this machine, from the Java files beside this one:

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
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock

from rivermeet.infra.engine.java import JavaError, find_java
from rivermeet.infra.settings import Settings, SettingsError
from rivermeet.pipelines.errors import RivermeetError

# Of the versions that are installed: pyproject.toml allows for any patch of theirs.
_SPARK, _DELTA = version("pyspark"), version("delta-spark")
PACKAGE = f"io.delta:delta-spark_4.2_2.13:{_DELTA}"
NEEDED = tuple(
    f"{name}-{_DELTA}"
    for name in (
        *("delta-spark_4.2_2.13", "delta-storage"),
        *("delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog"),
    )
)
KAFKA_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_SPARK}"
KAFKA_NEEDED = (
    *(f"spark-sql-kafka-0-10_2.13-{_SPARK}", f"spark-token-provider-kafka-0-10_2.13-{_SPARK}"),
    *("kafka-clients", "commons-pool2"),
)
_SDK = "2.35.4"
# The SDK's bundle, which hadoop-aws asks for, is 686 MB; these three and what they need are 13 MB.
S3_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    *(f"software.amazon.awssdk:{n}:{_SDK}" for n in ("s3", "s3-transfer-manager", "sts")),
)

# Spark brings its own, newer copies of all these; shipping Delta's beside them invites clashes.
_SPARK_HAS = (
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.datatype:*",
    "com.github.luben:*",
    "com.google.code.findbugs:*",
    "commons-logging:*",
    "commons-pool:*",
    "io.airlift:*",
    "io.unitycatalog:*",
    "javax.annotation:*",
    "org.antlr:*",
    "org.apache.hadoop:*",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "org.locationtech.jts:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
    "org.xerial.snappy:*",
)
_S3_WITHOUT = (
    *(name for name in _SPARK_HAS if not name.startswith("org.apache.hadoop:")),
    "commons-codec:*",
    "io.netty:*",
    "org.apache.httpcomponents:*",
    "org.wildfly.openssl:*",
    "software.amazon.awssdk:bundle",
)
_NO_ACCESS = re.compile(r"Server access error at url (\S+) \((.+)\)")
"""What Ivy writes of a repository that does not answer."""
_KAFKA_WITHOUT = ("at.yawk.lz4:*", "org.scala-lang.modules:*")


class JarsError(RivermeetError):
    """The jars could not be fetched."""

    remedy = "Check the network, or put the jars in a folder and set RIVERMEET_JARS to it."


def jars(settings: Settings) -> list[Path]:
    """Return Delta's jars, and those of S3 where tables or data are there, fetching them the first time.

    Parameters
    ----------
    settings : Settings
        `settings.jars` replaces the download; then nothing is fetched. Else jars are kept in `settings.cache`.

    Returns
    -------
    list of Path

    Raises
    ------
    SettingsError
        If `settings.jars` lacks a jar.
    JarsError
        If the download fails.
    JavaError
        If the classes that write on S3 cannot be built.
    """
    cache = settings.cache
    if settings.jars is not None:
        given = _use_given(settings.jars)
        return [*given, *_beside(given, settings.jars, cache)] if settings.on_s3 else given
    found = _delta_jars(cache)
    return [*found, *_s3_jars(cache / "s3"), s3_classes_jar(cache / "s3", found)] if settings.on_s3 else found


def _delta_jars(cache: Path) -> list[Path]:
    found, missing = _look(cache / "jars")
    if missing:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "fetch.lock"):
            if _look(cache / "jars")[1]:
                try:
                    fetch(PACKAGE, cache, without=_SPARK_HAS)
                except JarsError as error:
                    raise JarsError(f"{error}, or put its jars in a folder and set RIVERMEET_JARS to it") from None
        found, missing = _look(cache / "jars")
        if missing:
            raise JarsError(f"fetched {PACKAGE} into {cache}, but {missing[0]}.jar is not there")
    return found


def _s3_jars(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "fetch.lock"):
        if not (folder / "fetched").exists():
            fetch(",".join(S3_PACKAGES), folder, without=_S3_WITHOUT)
            (folder / "fetched").touch()
    return sorted((folder / "jars").glob("*.jar"))


def _beside(given: list[Path], folder: Path, cache: Path) -> list[Path]:
    """What a folder of jars lacks for S3 and is built here; a jar of these classes that it has wins."""
    if not any("hadoop-aws" in jar.stem for jar in given):
        raise SettingsError(
            f"RIVERMEET_JARS={folder} lacks hadoop-aws and its SDK, for tables on S3; copy them there",
            variable="RIVERMEET_JARS",
        )
    return [] if any(jar.stem.startswith(NAME) for jar in given) else [s3_classes_jar(cache / "s3", given)]


def kafka_source_jars(settings: Settings) -> list[Path]:
    """Return the jars of Spark's own Kafka source, fetching them the first time; parameters and errors as of `jars`."""
    if settings.jars is not None:
        given = _use_given(settings.jars)
        found = [path for path in given if any(name in path.stem for name in KAFKA_NEEDED)]
        if len(found) < len(KAFKA_NEEDED):
            raise SettingsError(
                f"RIVERMEET_JARS={settings.jars} lacks one of {', '.join(KAFKA_NEEDED)}; copy it there",
                variable="RIVERMEET_JARS",
            )
        return found
    folder = settings.cache / "kafka-source"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "fetch.lock"):
        found = sorted((folder / "jars").glob("*.jar"))
        if not all(any(name in jar.stem for jar in found) for name in KAFKA_NEEDED):
            # Those of another Spark would be on the class path, too.
            shutil.rmtree(folder / "jars", ignore_errors=True)
            fetch(KAFKA_PACKAGE, folder, without=(*_SPARK_HAS, *_KAFKA_WITHOUT))
            found = sorted((folder / "jars").glob("*.jar"))
    return found


def _use_given(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise SettingsError(
            f"RIVERMEET_JARS={folder} is not a folder; name one that holds jars", variable="RIVERMEET_JARS"
        )
    missing = _look(folder)[1]
    if missing:
        lacks = ", ".join(f"{name}.jar" for name in missing)
        raise SettingsError(
            f"RIVERMEET_JARS={folder} lacks {lacks}; copy what is missing there", variable="RIVERMEET_JARS"
        )
    # All of them: a site may keep connectors and file-system jars in the same folder.
    return sorted(folder.glob("*.jar"))


def _look(folder: Path) -> tuple[list[Path], list[str]]:
    # Ivy puts the group before the name of a jar, Maven does not.
    by_name = {path.stem.removeprefix("io.delta_"): path for path in folder.glob("*.jar")}
    return (
        [by_name[name] for name in NEEDED if name in by_name],
        [name for name in NEEDED if name not in by_name],
    )


def fetch(packages: str, cache: Path, without: Sequence[str] = ()) -> None:
    """Put packages and what they need into ``jars`` in a folder, through Spark's Ivy.

    Parameters
    ----------
    packages : str
        Maven coordinates, with commas between. Ivy leaves out Scala's library: Spark has it.
    cache : Path
        Where Ivy keeps what it finds.
    without : sequence of str
        ``group:name`` of packages that are not followed.

    Raises
    ------
    JarsError
        If they do not resolve.
    """
    find_java()
    print(f"rivermeet: fetching {packages} (once)", file=sys.stderr)
    done = _resolve(packages, cache, without)
    if done.returncode:
        # A local Maven repository that has a POM without its jar, as Maven itself leaves it, hides all others.
        shutil.rmtree(cache / "cache", ignore_errors=True)
        done = _resolve(packages, cache, without, past_local=True)
    log = cache / "fetch.log"
    log.write_text(done.stdout + done.stderr)
    if done.returncode:
        raise JarsError(f"could not fetch {packages} (log: {log}): {_cause(done.stdout + done.stderr)}")


def _cause(said: str) -> str:
    """What kept Ivy from fetching, in its own words, and what to do."""
    found = _NO_ACCESS.search(said)
    if found is None:
        return "check the network"
    host, error = urlsplit(found[1]).hostname, found[2]
    if "SSL" in error or "PKIX" in error:
        cure = (
            "this Java does not trust the certificate, which a proxy may have signed: set JAVA_TOOL_OPTIONS to "
            "-Djavax.net.ssl.trustStore=FILE, a store with the proxy's authority"
        )
    else:
        cure = (
            "check the network; Java does not read HTTPS_PROXY: behind a proxy set JAVA_TOOL_OPTIONS to "
            "-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT"
        )
    return f"asked for it, {host} gave {error}; {cure}"


def _resolve(
    packages: str, cache: Path, without: Sequence[str], past_local: bool = False
) -> subprocess.CompletedProcess[str]:
    import pyspark

    spark_home = Path(pyspark.__file__).parent
    excluded = ("--exclude-packages", ",".join(without)) if without else ()
    with tempfile.TemporaryDirectory() as folder:
        options = os.environ.get("SPARK_SUBMIT_OPTS", "") + (f" -Duser.home={folder}" if past_local else "")
        # spark-submit resolves packages only on the way to an application.
        nothing = Path(folder, "nothing.py")
        nothing.touch()
        return subprocess.run(
            [
                str(spark_home / "bin" / "spark-submit"),
                *("--packages", packages, *excluded),
                *("--conf", f"spark.jars.ivy={cache}"),
                str(nothing),
            ],
            env=os.environ
            | {"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": options.strip()},
            capture_output=True,
            text=True,
            check=False,
        )


def main() -> None:
    """Fetch the jars from the command line (`python -m rivermeet.infra.engine.jars`)."""
    try:
        jars(Settings.from_env())
    except (JarsError, JavaError, SettingsError) as error:
        sys.exit(f"rivermeet: {error}")


if __name__ == "__main__":
    main()


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
