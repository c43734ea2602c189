"""The files of pipelines: each stands for itself, and one that cannot be loaded stops no other.

    a           PIPELINE = Pipeline("a")        loaded
    b, line 3   raises, or is no Python         named with file, line and error; `load` of it raises that
    c and d     both Pipeline("c")              neither is loaded: nobody knows which one is meant

Held by ``tests/pipelines/test_files.py``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from rivermeet.pipelines.errors import listed
from rivermeet.pipelines.pipeline import Pipeline

_PACKAGE = "rivermeet.pipelines"


class PipelineFileError(Exception):
    """A pipeline whose file cannot be loaded; the message has file, line and error."""


@dataclass(frozen=True)
class BrokenFile:
    """A file that declares no pipeline that could be run: where, and why.

    Attributes
    ----------
    pipeline
        The pipeline's name; the file's where it got no further.
    """

    pipeline: str
    file: str
    line: int | None
    error: str

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.file}{line}: {self.error}"


def loaded() -> tuple[tuple[Pipeline, ...], tuple[BrokenFile, ...]]:
    """Every pipeline that is declared in a file of this package, by name, and the files that cannot be loaded."""
    by_name: dict[str, dict[str, Pipeline]] = {}
    broken: list[BrokenFile] = []
    for found in pkgutil.iter_modules(importlib.import_module(_PACKAGE).__path__):
        folder = getattr(found.module_finder, "path", "")
        file = str(Path(folder, f"{found.name}.py"))
        try:
            module = importlib.import_module(f"{_PACKAGE}.{found.name}")
        except (Exception, SystemExit) as error:  # whatever a file may raise
            broken.append(BrokenFile(found.name, file, _line(error, file), f"{type(error).__name__}: {_said(error)}"))
            continue
        declared = _declared(module)
        if declared is not None and not any(declared is other for other in by_name.get(declared.name, {}).values()):
            by_name.setdefault(declared.name, {})[file] = declared
    broken += _twice(by_name)
    return tuple(next(iter(by_name[name].values())) for name in sorted(by_name) if len(by_name[name]) == 1), tuple(
        broken
    )


def load_all() -> tuple[Pipeline, ...]:
    """Every pipeline that can be loaded, by name."""
    return loaded()[0]


def load(name: str) -> Pipeline:
    """The pipeline of that name.

    Raises
    ------
    PipelineFileError
        If its file cannot be loaded, or it is declared by several.
    KeyError
        With the choices, and the files that cannot be loaded, where there is none.
    """
    sound, broken = loaded()
    for pipeline in sound:
        if pipeline.name == name:
            return pipeline
    own = [file for file in broken if file.pipeline == name]
    if own:
        raise PipelineFileError(str(own[0]))
    problems = "".join(f"; not loaded: {file}" for file in broken)
    raise KeyError(f"no pipeline '{name}'; there are {', '.join(p.name for p in sound)}{problems}")


def _declared(module: ModuleType) -> Pipeline | None:
    found = getattr(module, "PIPELINE", None)
    return found if isinstance(found, Pipeline) else None


def _twice(by_name: Mapping[str, Mapping[str, Pipeline]]) -> list[BrokenFile]:
    found: list[BrokenFile] = []
    for name, files in by_name.items():
        if len(files) > 1:
            *others, last = files
            says = f"pipeline '{name}' is declared by {listed(others)} too; give one of them another name"
            found.append(BrokenFile(name, last, None, says))
    return found


def _line(error: BaseException, file: str) -> int | None:
    """The line of the file that the error comes from; None where that is unknown."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


def _said(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)
