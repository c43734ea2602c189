"""The Java that Spark will run on: found and checked before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

OLDEST = 17
_FIX = (
    "install OpenJDK 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or set JAVA_HOME"
)


class JavaError(RuntimeError):
    """There is no Java that Spark can run on."""


def find_java(env: Mapping[str, str] | None = None) -> Path:
    """Return the `java` that Spark will use, of a version that it runs on.

    Parameters
    ----------
    env : Mapping, optional
        Stands in for ``os.environ`` (``JAVA_HOME``, then ``PATH``).

    Returns
    -------
    Path

    Raises
    ------
    JavaError
        If there is none or it is too old.
    """
    env = os.environ if env is None else env
    home = env.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else env.get("PATH", ""))
    if found is None:
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise JavaError(f"no Java in {where}, Spark needs {OLDEST} or newer: {_FIX}")
    asked = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    if version is None:
        raise JavaError(f"{found} -version prints no version: {_FIX}")
    if int(version[1]) < OLDEST:
        raise JavaError(f"{found} is Java {version[1]}, Spark needs {OLDEST} or newer: {_FIX}")
    return Path(found)


def main() -> None:
    """Check Java from the command line (`python -m infra.engine.java`)."""
    try:
        find_java()
    except JavaError as error:
        sys.exit(f"rivermeet: {error}")


if __name__ == "__main__":
    main()
