"""The ahead-of-time cache of JDK 25: classes that an engine has loaded, and how its methods ran, kept for the next one.

| the engine, of one JVM and its settings | |
|---|---|
| the first of a home | records as it runs; once it has ended, a process at the lowest priority makes the cache |
| one that starts while that process works | has no cache, and records nothing |
| the next ones | start from the cache |
| one whose JVM refuses the cache | starts without it, and removes it |

An engine needs the cache of the one before it only when that one has ended, so that recording needs no training run.
It is never waited for, and never needed. Java older than 25 has none: docs/decisions/aot-cache.md.

Source: JEP 483, JEP 514, JEP 515. Held by ``tests/infra/engine/test_aot_cache.py``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rivermeet.infra.engine.processes import spawn

OLDEST_WITH_CACHE = 25
"""Of the versions of Java with such a cache that holds profiles of methods, too."""
RECORDING_SECONDS = 60
"""How long a JVM that ends may take to write what it has recorded."""
JVM_ENDS_SECONDS = 10
"""How long any other may take to end: no client can come in until it has."""
MAKING_SECONDS = 600
"""How long it may take to make a cache; what is older and unfinished was left by a process that died."""
_RECORD = "-XX:AOTMode=record"
_NOTHING = "-XX:AOTMode=off"
_USE = "-XX:AOTCache="
_REFUSED = re.compile(r"^\[[\d.]+s\]\[error\s*\]\[aot", re.MULTILINE)
_OF_CACHE = re.compile(r"-XX:AOT\w+=.*")


@dataclass(frozen=True)
class AotCache:
    """The cache of one JVM with its settings, in a folder that has those of no other.

    Attributes
    ----------
    key
        Distinguishes JVMs and settings.
    """

    folder: Path
    key: str

    @classmethod
    def of(cls, folder: Path, java: str, settings: str) -> AotCache | None:
        """The cache for a JVM that says so of its version; None where it makes none.

        Parameters
        ----------
        java
            What ``java -version`` prints.
        settings
            Distinguishes all that the JVM is started with.
        """
        found = re.search(r'version "(\d+)', java)
        if found is None or int(found[1]) < OLDEST_WITH_CACHE:
            return None
        return cls(folder, hashlib.sha256(f"{java}\n{settings}".encode()).hexdigest()[:16])

    @property
    def file(self) -> Path:
        """The cache."""
        return self.folder / f"{self.key}.aot"

    @property
    def recorded(self) -> Path:
        """What the JVM leaves, when it ends, to make the cache of."""
        return self.folder / f"{self.key}.recorded"

    @property
    def draft(self) -> Path:
        """The cache while it is made."""
        return self.folder / f"{self.key}.draft"

    @property
    def log(self) -> Path:
        """What the process that made it has said."""
        return self.folder / "aot.log"

    def options(self) -> str:
        """What the JVM is to be given, for ``spark.driver.extraJavaOptions``; caches of others are removed."""
        self.folder.mkdir(exist_ok=True)
        unfinished = {self.recorded, self.draft}
        making = False
        for file in self.folder.iterdir():
            with suppress(FileNotFoundError):
                if file in unfinished and time.time() - file.stat().st_mtime < MAKING_SECONDS:
                    making = True
                elif file not in {self.file, self.log}:
                    file.unlink()
        if self.file.exists():
            given = [f"{_USE}{self.file}"]
        else:
            given = [_NOTHING] if making else [_RECORD, f"-XX:AOTConfiguration={self.recorded}"]
        # Of a JVM that is built without such caches, its -version does not say so.
        return shlex.join(["-XX:+IgnoreUnrecognizedVMOptions", *given])

    def remove_if_refused(self, said: str) -> None:
        """Remove a cache that the JVM could not use, by what it has said when it started."""
        if _REFUSED.search(said):
            self.file.unlink(missing_ok=True)

    def make(self, command: Sequence[str]) -> None:
        """Make the cache of what a JVM has recorded, in a process that nobody waits for; without, nothing is done.

        Parameters
        ----------
        command
            How the JVM was started: it takes no cache that was made with another class path or other flags.
        """
        if _RECORD not in command or not self.recorded.exists():
            return
        kept = [part for part in command[1:] if not _OF_CACHE.fullmatch(part)]
        made = ["-XX:AOTMode=create", f"-XX:AOTConfiguration={self.recorded}", f"{_USE}{self.draft}"]
        job = [str(self.recorded), str(self.draft), str(self.file), command[0], *made, *kept]
        spawn([sys.executable, "-m", "rivermeet.infra.engine.aot_cache", *job], os.environ, self.folder, self.log)


def ends_within(command: Sequence[str]) -> int:
    """Seconds that a JVM that was started so may take to end."""
    return RECORDING_SECONDS if _RECORD in command else JVM_ENDS_SECONDS


def describe_cache(command: Sequence[str], wanted: bool) -> str:
    """What `rivermeet engine status` says of the cache of a JVM that was started so.

    Parameters
    ----------
    wanted
        Whether the settings ask for one.
    """
    used = next((Path(part.removeprefix(_USE)) for part in command if part.startswith(_USE)), None)
    if used is not None:
        with suppress(FileNotFoundError):
            return f"{used.stat().st_size // 2**20} MB, from an earlier engine"
        return "refused by this JVM and removed; the next engine records another"
    if _RECORD in command:
        return "recording; made when this engine has ended, for the next one"
    if _NOTHING in command:
        return "none: it was being made when this engine started"
    return f"none: Java older than {OLDEST_WITH_CACHE}" if wanted else "none: engine_aot_cache is off"


def main(recorded: str, draft: str, file: str, *command: str) -> None:
    """Make a cache; an attempt that fails leaves nothing."""
    os.nice(19)
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=MAKING_SECONDS, check=True)
        os.replace(draft, file)
    finally:
        for left in (recorded, draft):
            Path(left).unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
