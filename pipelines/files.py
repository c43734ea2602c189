"""The files of a project's pipelines: each is loaded separately, and one that cannot be loaded does not affect others.

    a           PIPELINE = Pipeline("a")        loaded
    b, line 3   raises, or is not Python        reported with file, line and error; loading it by name raises that
    c and d     both Pipeline("c")              neither is loaded: it is ambiguous
    prices      no PIPELINE                     a helper: a has `from .prices import VAT`

A project's folder is a package with a unique name (`package_of`). Its files are modules of that package
by their path, and import each other relatively, so folders of the same name elsewhere, `json.py` beside a pipeline, or
two projects in one process do not conflict. Held by ``tests/pipelines/test_files.py``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from rivermeet.pipelines.errors import RivermeetError, list_choices
from rivermeet.pipelines.pipeline import Pipeline


class PipelineFileError(RivermeetError):
    """A pipeline whose file cannot be loaded; the message has file, line and error."""

    remedy = "Correct the file at the line that the message names."


@dataclass(frozen=True)
class BrokenFile:
    """A file without a valid pipeline: where, and why.

    Attributes
    ----------
    pipeline
        The pipeline's name, or the file's if it was not known yet.
    """

    pipeline: str
    file: str
    line: int | None
    error: str

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.file}{line}: {self.error}"


def load_files(root: Path, patterns: Sequence[str]) -> tuple[tuple[Pipeline, ...], tuple[BrokenFile, ...]]:
    """Load the files of a project, each once in a process.

    Parameters
    ----------
    root
        The project's folder.
    patterns
        Patterns of files, relative to it; one without a wildcard names a file that has to be there.

    Returns
    -------
    tuple of Pipeline
        Every pipeline that can be loaded, by name.
    tuple of BrokenFile
        The files that cannot.
    """
    by_name: dict[str, dict[str, Pipeline]] = {}
    package = package_of(root)
    missing = [one for one in patterns if not {*"*?["} & {*one} and not (root / one).is_file()]
    says = "is not there; `pipelines` of rivermeet.toml names it"
    broken = [BrokenFile(Path(one).stem, str(root / one), None, says) for one in missing]
    importlib.invalidate_caches()
    for path in _files(root, patterns):
        file = str(path)
        try:
            module = importlib.import_module(_module(package, path.relative_to(root)))
        except (Exception, SystemExit) as error:  # whatever a file may raise
            broken.append(BrokenFile(path.stem, file, _line(error, file), _describe_error(error, path)))
            continue
        declared = getattr(module, "PIPELINE", None)
        if isinstance(declared, Pipeline) and declared not in by_name.get(declared.name, {}).values():
            by_name.setdefault(declared.name, {})[file] = declared
    for name, (*others, last) in by_name.items():
        if others:
            says = f"pipeline '{name}' is declared by {list_choices(others)} too; give one of them another name"
            broken.append(BrokenFile(name, last, None, says))
    sound = tuple(next(iter(by_name[name].values())) for name in sorted(by_name) if len(by_name[name]) == 1)
    return sound, tuple(broken)


def package_of(root: Path) -> str:
    """The name of the package that a project's folder is; made on first use."""
    name = f"rivermeet_project_{sha256(str(root).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        package = ModuleType(name, f"The files of {root}.")
        package.__path__ = [str(root)]
        sys.modules[name] = package
    return name


def _files(root: Path, patterns: Sequence[str]) -> Iterator[Path]:
    found = {path for one in patterns for path in root.glob(one) if path.suffix == ".py" and path.is_file()}
    # Editors and notebooks keep copies in hidden folders.
    return (path for path in sorted(found) if not any(part[0] == "." for part in path.relative_to(root).parts))


def _module(package: str, file: Path) -> str:
    parts = [*file.with_suffix("").parts]
    if "." in "".join(parts):
        raise ImportError(f"a file or folder with a dot in its name ({file}) cannot be imported; rename it")
    return ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def _line(error: BaseException, file: str) -> int | None:
    """The line of the file that the error comes from; None where that is unknown."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


def _describe_error(error: BaseException, file: Path) -> str:
    said = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    beside = error.name if isinstance(error, ModuleNotFoundError) else None
    if beside and (file.with_name(f"{beside}.py").is_file() or file.with_name(beside).is_dir()):
        return f"{said}; it is beside this file: write `from .{beside} import …`"
    return said
