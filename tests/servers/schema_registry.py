"""A schema registry on this machine, Apicurio with Confluent's interface: for the tests, the demo and `make kafka`.

It listens on the loopback alone, keeps its schemas in memory, and its folder is removed when it ends. The program is
fetched once, through the Ivy that Spark brings. Held by ``tests/servers/test_local.py``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from filelock import FileLock

from rivermeet.infra.engine.jars import JarsError
from rivermeet.infra.engine.java import find_java
from rivermeet.infra.settings import Settings
from tests.servers.java_server import JavaServer
from tests.servers.ports import free_port

# 3 and later are compiled for a Java that Spark does not need.
GROUP, NAME, VERSION = "io.apicurio", "apicurio-registry-app", "2.6.13.Final"
_ARTIFACT = f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="rivermeet" module="registry"/>
  <dependencies>
    <dependency org="{GROUP}" name="{NAME}" rev="{VERSION}" transitive="false">
      <artifact name="{NAME}" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def registry_program() -> Path:
    """The folder of the program, fetched and unpacked the first time.

    Raises
    ------
    JarsError
        Where it cannot be fetched.
    """
    cache = Settings.from_env().cache / "registry"
    cache.mkdir(parents=True, exist_ok=True)
    program = cache / f"{NAME}-{VERSION}"
    with FileLock(cache / "fetch.lock"):
        if not program.exists():
            _fetch(program)
    return program


def _fetch(program: Path) -> None:
    import pyspark

    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    print(f"rivermeet: fetching {GROUP}:{NAME}:{VERSION} (once)", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=program.parent) as name:
        folder = Path(name)
        (folder / "ivy.xml").write_text(_ARTIFACT)
        asked = ["-cache", "cache", "-ivy", "ivy.xml", "-retrieve", "[artifact].[ext]"]
        done = subprocess.run(
            [str(find_java()), "-cp", str(ivy), "org.apache.ivy.Main", *asked],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        packed = folder / f"{NAME}.tar.gz"
        if done.returncode or not packed.exists():
            log = program.parent / "fetch.log"
            log.write_text(done.stdout + done.stderr)
            raise JarsError(f"could not fetch {GROUP}:{NAME}:{VERSION} (log: {log}): check the network")
        with tarfile.open(packed) as archive:
            archive.extractall(folder / "program", filter="data")
        (folder / "program").rename(program)


@dataclass
class SchemaRegistry:
    """A registry in a folder of its own, on a free port of 127.0.0.1."""

    folder: Path
    port: int = field(default_factory=free_port)
    _server: JavaServer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._server = JavaServer("schema registry", self.folder)

    @property
    def url(self) -> str:
        """What ``RIVERMEET_SCHEMA_REGISTRY`` names."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        (jar,) = registry_program().glob("*-runner.jar")
        where = "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"
        self._server.start([*where, "-jar", str(jar)], self._answers)

    def stop(self) -> None:
        """End it in good order."""
        self._server.stop()

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/subjects", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False


@contextmanager
def registry_running(port: int | None = None) -> Iterator[SchemaRegistry]:
    """A registry as long as the block lasts."""
    folder = Path(tempfile.mkdtemp(prefix="rivermeet-registry-"))
    registry = SchemaRegistry(folder) if port is None else SchemaRegistry(folder, port)
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()
        shutil.rmtree(folder, ignore_errors=True)
