"""`rivermeet.toml`, the file of a project: its settings, and which files are its pipelines.

    engine_memory = "2g"               as if  RIVERMEET_ENGINE_MEMORY=2g
    data = "data"                      as if  RIVERMEET_DATA=/the/project/data
    [kafka]
    "bootstrap.servers" = "b:9092"     as if  RIVERMEET_KAFKA=b:9092
    pipelines = ["flows/**/*.py"]      files of pipelines; default pipelines/**/*.py

What the file says is what the environment variable of that name would say, so that each setting is checked in one place
and a variable that is set wins. Held by ``tests/infra/test_project_file.py``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivermeet.pipelines.errors import RivermeetError

FILE = "rivermeet.toml"
PIPELINES = ("pipelines/**/*.py",)
PLACES = ("home", "tables", "data", "jars", "cache")
"""Settings that are paths: a relative one is relative to the project."""
KEYS = (
    *PLACES,
    *("engine", "engine_idle_minutes", "engine_memory", "engine_port", "engine_aot_cache", "reports_port", "fold"),
    *("topic_reader", "file_reader", "postgres", "schema_registry", "lease_seconds", "judge", "judge_memory"),
)
"""Settings that the file may have. Where S3 is, other libraries of the process read from AWS's own variables."""
_KAFKA = "RIVERMEET_KAFKA_"
_URL = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)


class ProjectFileError(RivermeetError, ValueError):
    """A `rivermeet.toml` that is not there, cannot be read, or says what cannot be meant."""

    remedy = "Correct the setting that the message names, or write a project with rivermeet init."


@dataclass(frozen=True)
class ProjectFile:
    """What `rivermeet.toml` says: its settings as environment variables.

    ``root`` is the folder that it is in, and ``pipelines`` are patterns of the files of pipelines, relative to it.
    """

    root: Path
    pipelines: tuple[str, ...]
    variables: Mapping[str, str]

    @property
    def path(self) -> Path:
        """The file itself."""
        return self.root / FILE

    def name_setting(self, message: str, environment: Mapping[str, str]) -> str:
        """A message about a variable, about the setting instead where the file, and not the environment, gave it."""

        def key(found: re.Match[str]) -> str:
            ours = found[0] in self.variables and found[0] not in environment
            return f"{self.path}: {setting_of(found[0])}" if ours else found[0]

        return re.sub(r"\bRIVERMEET_\w+", key, message)


def find_project(start: Path) -> Path | None:
    """The nearest folder with a `rivermeet.toml`: ``start``, or one above it."""
    start = start.absolute()
    return next((folder for folder in (start, *start.parents) if (folder / FILE).is_file()), None)


def read_project(root: Path) -> ProjectFile:
    """Read the file of the project in this folder.

    Raises `ProjectFileError` if it is missing, is no TOML, or has a setting that does not exist or of a wrong type.
    """
    path = root / FILE
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ProjectFileError(
            f"{root} has no {FILE}; name the folder of a project, or write one with `rivermeet init`", path=path
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProjectFileError(f"{path} is no TOML: {error}", path=path) from None
    unknown = [key for key in said if key not in (*KEYS, "kafka", "pipelines")]
    if unknown:
        there = ", ".join(sorted((*KEYS, "kafka", "pipelines")))
        raise ProjectFileError(
            f"{path} has no setting {unknown[0]!r}; there are {there}", path=path, setting=unknown[0]
        )
    variables = {variable_of(key): _text(path, key, said[key]) for key in KEYS if key in said}
    for key in PLACES:
        place = variables.get(variable_of(key))
        if place and not _URL.match(place):
            variables[variable_of(key)] = str(root / Path(place).expanduser())
    if "kafka" in said:
        if not isinstance(said["kafka"], dict):
            raise ProjectFileError(
                f"{path}: kafka is a table of librdkafka's properties; write [kafka]", path=path, setting="kafka"
            )
        variables |= {kafka_variable(name): _text(path, f"kafka.{name}", v) for name, v in _flat(said["kafka"])}
    given = {variable: value for variable, value in variables.items() if value}
    return ProjectFile(root, _patterns(path, said.get("pipelines", PIPELINES)), given)


def variable_of(setting: str) -> str:
    """The environment variable of a setting."""
    return f"RIVERMEET_{setting.upper()}"


def setting_of(variable: str) -> str:
    """The setting of an environment variable, as the file has it."""
    if variable == "RIVERMEET_KAFKA" or variable.startswith(_KAFKA):
        return f"kafka.{kafka_property(variable)}"
    return variable.removeprefix("RIVERMEET_").lower()


def kafka_variable(name: str) -> str:
    """The environment variable of a property of librdkafka."""
    return "RIVERMEET_KAFKA" if name == "bootstrap.servers" else _KAFKA + name.upper().replace(".", "_")


def kafka_property(variable: str) -> str | None:
    """The property of librdkafka that an environment variable gives; None of any other variable."""
    if variable == "RIVERMEET_KAFKA":
        return "bootstrap.servers"
    return variable.removeprefix(_KAFKA).lower().replace("_", ".") if variable.startswith(_KAFKA) else None


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Properties with dots in their names, quoted or not: to TOML, a dot outside of quotes begins a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _text(path: Path, key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ProjectFileError(f"{path}: {key} is {value!r}; give a text or a number", path=path, setting=key)
    return str(value)


def _patterns(path: Path, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) and one for one in given):
        raise ProjectFileError(
            f'{path}: pipelines is {given!r}; list files, as in ["pipelines/**/*.py"]', path=path, setting="pipelines"
        )
    outside = [one for one in given if Path(one).is_absolute() or ".." in Path(one).parts]
    if outside:
        raise ProjectFileError(
            f"{path}: pipelines names {outside[0]!r}; a project's pipelines are inside its folder",
            path=path,
            setting="pipelines",
        )
    return tuple(given)
