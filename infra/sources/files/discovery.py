"""The files of a source, and which of them are new, missing or changed."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rivermeet.infra.printable import redact
from rivermeet.infra.sources.places import URL
from rivermeet.pipelines import Files
from rivermeet.pipelines.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WILD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class FileState:
    """The state of a file when it was listed, by which a later change is detected."""

    path: str
    length: int
    modified_ms: int


def discover(files: Files, data_root: str, spark: Callable[[], SparkSession]) -> tuple[FileState, ...]:
    """Every file that the pattern matches now, by path, without those that Spark regards as hidden.

    The pattern may hold ``* ? [] {a,b} **``; one that names an existing local file is that file, and a folder stands
    for the files in it. Spark silently ignores hidden files, so one that is named explicitly is refused, and so is a
    pattern with a credential. ``spark`` is called only for URLs other than ``file:``, so local files need no JVM.
    """
    pattern = files.pattern
    if redact(pattern) != pattern:
        raise SourceError(
            f"file pattern '{redact(pattern)}' holds a credential, which plans, logs and dead letters would show; "
            "leave it out and give it to the engine, for S3 as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            files=redact(pattern),
        )
    if not (URL.match(pattern) or os.path.isabs(pattern)):
        root = _local(data_root)
        if root is not None:
            return _by_path(_find(pattern, root))
        pattern = f"{data_root.rstrip('/')}/{pattern}"
    local = _local(pattern)
    if local is None:
        found = _by_path(_list_by_spark(pattern, spark()))
        if not found:
            _refuse_hidden(pattern)
        return found
    return _by_path(_find(local.lstrip("/"), "/"))


def select_unconsumed(consumed: Iterable[FileState], found: Iterable[FileState]) -> list[FileState]:
    """Found files whose path was never consumed."""
    seen = {state.path for state in consumed}
    return [state for state in found if state.path not in seen]


def find_changed(consumed: Iterable[FileState], found: Iterable[FileState]) -> list[tuple[FileState, FileState]]:
    """Yield (as consumed, as found) for each file with another length or time; missing files are ignored."""
    now = {state.path: state for state in found}
    return [(then, now[then.path]) for then in consumed if now.get(then.path, then) != then]


def refuse_changed(consumed: Iterable[FileState], found: Iterable[FileState]) -> None:
    """Raise ValueError for the first changed file: its records cannot be taken back."""
    for then, now in find_changed(consumed, found):
        raise SourceError(
            f"file {then.path} changed after it was consumed "
            f"({_show_state(then)} then, {_show_state(now)} now); restore it, or add the rows as a new file",
            file=then.path,
        )


def find_moved(planned: Iterable[FileState]) -> Iterator[FileState]:
    """Local files that are missing, or have another length or time than planned; other URLs are not checked."""
    for state in planned:
        if URL.match(state.path):
            continue
        path = Path(state.path)
        if not path.is_file() or _read_state(path) != state:
            yield state


def unopenable(states: Iterable[FileState]) -> dict[str, str]:
    """Path of each file whose name Spark's readers cannot open, and why: to Hadoop, ``a:`` is a scheme."""
    reason = "the file has a colon in its name, which Hadoop cannot open; deliver it under another name"
    return {s.path: reason for s in states if not URL.match(s.path) and ":" in Path(s.path).name}


def _show_state(state: FileState) -> str:
    return f"{state.length} bytes of {state.modified_ms / 1000:.3f}"


def _by_path(states: Iterable[FileState]) -> tuple[FileState, ...]:
    return tuple(sorted(set(states), key=lambda state: state.path))


def _is_hidden(name: str) -> bool:
    """Whether Spark's readers ignore a file or folder of that name."""
    return name.startswith((".", "_")) or name.endswith("._COPYING_")


def _refuse_hidden(pattern: str) -> None:
    name = pattern.rstrip("/").rsplit("/", 1)[-1]
    if _is_hidden(name):
        raise SourceError(
            f"file pattern '{pattern}' names hidden files: Spark reads none whose name begins with '_' or '.', or ends "
            "with '._COPYING_', which is how writers mark what is not finished; deliver the file under another name",
            files=pattern,
        )


def _local(path: str) -> str | None:
    """Give the local path that a path or ``file:`` URL names, or None for another URL."""
    if not URL.match(path):
        return os.path.abspath(path)
    # Not urlsplit for the whole: it would cut file:/data/a?.csv at the question mark of the glob.
    if urlsplit(path).scheme.lower() != "file":
        return None
    return "/" + unquote(path.split(":", 1)[1]).lstrip("/")


def _find(pattern: str, root: str) -> Iterator[FileState]:
    literal = Path(root, pattern)
    if literal.is_file():
        _refuse_hidden(pattern)
        # a[1].csv named outright is that file, not the glob that would look for a1.csv.
        yield _read_state(literal)
        return
    if literal.is_dir():
        pattern = f"{glob.escape(pattern)}/*"
    elif _WILD.search(pattern):
        _refuse_hidden(pattern)
    for one in _alternatives(pattern):
        fixed = len(Path(one.split("*")[0].split("?")[0].split("[")[0]).parts)
        for match in glob.iglob(one, root_dir=root, recursive=True):
            # What the pattern spells out may be hidden (.rivermeet/in/*.csv), what a wildcard
            # found may not.
            parts = Path(match).parts
            named = Path(one).parts[:fixed]
            if not any(_is_hidden(p) for p in parts if p not in named) and Path(root, match).is_file():
                yield _read_state(Path(root, match))


def _alternatives(pattern: str) -> list[str]:
    """``a{b,c}`` as ``ab`` and ``ac``: Python's glob has no braces, and Spark's has."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [each for part in braces[1].split(",") for each in _alternatives(f"{before}{part}{after}")]


def _read_state(path: Path) -> FileState:
    status = path.stat()
    return FileState(str(path), status.st_size, status.st_mtime_ns // 1_000_000)


def _list_by_spark(pattern: str, spark: SparkSession) -> Iterator[FileState]:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    modified = F.unix_millis("modificationTime").alias("modified_ms")
    try:
        listing = spark.read.format("binaryFile").load(pattern)
        rows = listing.select("path", "length", modified).collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return
        raise
    named = set(pattern.split("/"))
    for row in rows:
        # As of local files: what the pattern spells out may be hidden, but for the file itself.
        *folders, name = row.path.split("/")
        if not _is_hidden(name) and not any(_is_hidden(part) for part in folders if part not in named):
            yield FileState(row.path, row.length, row.modified_ms)
