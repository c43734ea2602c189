"""A file that its process has locked, by which others know whether the process is still there.

| the file | its process |
|---|---|
| is locked | is there |
| is free | is gone, however it ended; the file has what it had noted |
| has a name that begins with a dot | has not locked it yet |

The system gives the lock back at the end of a process, so this needs neither a process's number nor a time. Held by
``tests/assets/defs/test_processes.py`` and ``tests/infra/engine/test_watch.py``.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class HeldFile(NamedTuple):
    """A file that this process has locked."""

    file: Path
    descriptor: int

    def note(self, line: str) -> None:
        """Add a line for the process that next finds the file free."""
        os.write(self.descriptor, f"{line}\n".encode())

    def let_go(self) -> None:
        """Give the lock back, and leave the file to be found."""
        os.close(self.descriptor)

    def remove(self) -> None:
        """Give the lock back, and leave nothing."""
        self.file.unlink(missing_ok=True)
        with suppress(OSError):
            os.close(self.descriptor)


def hold_file(folder: Path, *lines: str) -> HeldFile:
    """Make a locked file in a folder that is there; its name begins with this process's number."""
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    draft = folder / f".{name}"
    held = HeldFile(draft, os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    fcntl.flock(held.descriptor, fcntl.LOCK_EX)
    for line in lines:
        held.note(line)
    # The named file is locked: if it is free, its process has ended.
    return held._replace(file=draft.replace(folder / name))


def read_left_file(file: Path, remove: bool = False) -> str | None:
    """What a process that is gone has noted in its file; None where it is not gone, or there is no file."""
    with suppress(OSError), file.open() as left:
        fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
        noted = left.read()
        if remove:
            file.unlink(missing_ok=True)
        return noted
    return None
