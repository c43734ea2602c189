"""Settings: the environment, and the project's `rivermeet.toml` below it, read once, checked, and frozen.

A location stands in plans, Delta commits, SQL and Dagster's metadata, so that one with a credential in it is refused;
messages show it through `redact`. Held by ``tests/infra/engine/test_doors.py``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from rivermeet.infra.printable import redact
from rivermeet.infra.project_file import (
    FILE,
    ProjectFile,
    find_project,
    kafka_property,
    kafka_variable,
    read_project,
    variable_of,
)
from rivermeet.pipelines.errors import RivermeetError

PROJECT = Path(__file__).resolve().parent.parent
"""The folder that our own are in: a checkout, or, installed, the package."""

HOST = "127.0.0.1"
"""Where `rivermeet ui` serves its pages: to this machine alone."""

ENGINES = "auto, sc://host:port, local[N], local[*] or spark://host:port"
_ENGINE = re.compile(r"auto|local(\[(\*|[1-9]\d*)\])?|(sc|spark)://[^/:\s]+(:\d+)?\S*")
_MEMORY = re.compile(r"[1-9]\d*[mg]", re.IGNORECASE)
_URL = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
# With the first three delta-rs looks for a table elsewhere, or finds it without its history, so that epochs would be
# done twice; with the others it panics where it writes, in the home or in an epoch log among the tables.
_TROUBLE = re.compile(r"%[0-9a-f]{2}|[\\#?\[\]^|]", re.IGNORECASE)

KAFKA_FIXED = frozenset(
    {
        *("bootstrap.servers", "group.id", "isolation.level", "auto.offset.reset", "enable.auto.commit"),
        *("enable.auto.offset.store", "enable.partition.eof", "allow.auto.create.topics"),
    }
)
"""Properties of librdkafka that are not a setting, or have one of another name."""


class SettingsError(RivermeetError):
    """A setting has a value that cannot be used."""

    remedy = "Set or unset the variable that the message names."


@dataclass(frozen=True)
class Settings:
    """Where things are and which engine runs the joins: each is the variable ``RIVERMEET_`` and its name."""

    home: Path
    """All that a run writes, unless `tables` says otherwise."""
    tables: str
    """Folder or URL of the Delta tables."""
    data: str
    """Folder or URL against which relative source paths are resolved."""
    cache: Path
    """What is fetched once for all projects (`default_cache`)."""
    project: Path | None = None
    """Folder of the project; else the nearest with a ``rivermeet.toml``, from the current one upwards, if there is."""
    engine: str = field(default="auto", repr=False)
    """``auto`` (the warm local engine), ``sc://…``, ``local[…]``, ``spark://…``."""
    jars: Path | None = None
    """Folder of jars that replaces the download."""
    engine_idle_minutes: float = 30.0
    """The warm engine stops after so long without a client."""
    engine_memory: str = "4g"
    """Heap of the engine's JVM."""
    engine_port: int = 0
    """0 takes any free port."""
    engine_aot_cache: Literal["on", "off"] = "on"
    """``on``: the engine of JDK 25 or newer leaves an ahead-of-time cache to the next one; ``off`` removes it."""
    reports_port: int = 3001
    """Where `rivermeet ui` serves the reports, and links in Dagster lead."""
    fold: Literal["run", "due"] = "due"
    """``due`` folds tables that other nodes read when that is due, ``run`` in each run."""
    topic_reader: Literal["driver", "engine"] = "driver"
    """``driver`` reads topics in the process that runs epochs, ``engine`` by Spark's own source."""
    file_reader: Literal["auto", "driver", "engine"] = "auto"
    """``driver`` reads text files of this machine in the process that runs epochs, ``engine`` by Spark's own readers,
    and ``auto`` by these where the engine may be of another machine."""
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """librdkafka's properties: ``bootstrap.servers`` from ``RIVERMEET_KAFKA``, ``sasl.password`` from
    ``RIVERMEET_KAFKA_SASL_PASSWORD``, and so on."""
    postgres: str = field(default="", repr=False)
    """libpq's connection string or URL, such as ``service=shop``; without its database: that is declared."""
    schema_registry: str = field(default="", repr=False)
    """URL of the schema registry, with user and password if it asks for them."""
    s3_endpoint: str = ""
    """``AWS_ENDPOINT_URL``. Credentials are not settings: each client reads them from the environment."""
    s3_region: str = ""
    """``AWS_REGION``."""
    lease_seconds: float = 60.0
    """Term of the leases of tables at a URL: another machine may take over after so long without a renewal."""
    judge: Literal["auto", "duckdb", "spark"] = "auto"
    """Who evaluates checks: ``duckdb`` in the run's own process, ``spark``, or ``auto``."""
    judge_memory: str = "1g"
    """What DuckDB may take for one evaluation; the rest is spilled."""

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read `env`, or else ``os.environ``, and what it leaves open from the project's file.

        Raises `SettingsError` if a setting has a value that cannot be used, and `ProjectFileError` if the project's
        file cannot be read, or ``RIVERMEET_PROJECT`` is no project.
        """
        # An empty variable means unset, as in a shell's `VAR= command`.
        given = {k: v for k, v in (os.environ if env is None else env).items() if v}
        file = project_file(given)
        if file is None:
            return cls._parse(given, None)
        try:
            return cls._parse({**file.variables, **given}, file.root)
        except SettingsError as error:
            raise SettingsError(file.name_setting(str(error), given), **error.fields) from None

    @classmethod
    def _parse(cls, given: Mapping[str, str], project: Path | None) -> Settings:
        cache = Path(given.get("RIVERMEET_CACHE", default_cache(given))).expanduser().absolute()
        home = Path(given.get("RIVERMEET_HOME", (project or cache) / ".rivermeet")).expanduser().absolute()
        if home.exists() and not home.is_dir():
            raise SettingsError(f"RIVERMEET_HOME={home} is a file; name a folder", variable="RIVERMEET_HOME")
        _usable("RIVERMEET_HOME", str(home))
        parsed = {
            name: parse(variable, given[variable])
            for name, parse in _PARSERS.items()
            if (variable := variable_of(name)) in given
        }
        settings = cls(
            home=home,
            cache=cache,
            project=project,
            tables=_usable("RIVERMEET_TABLES", _location("RIVERMEET_TABLES", given, home / "tables")),
            data=_location("RIVERMEET_DATA", given, home / "data"),
            kafka=_kafka(given),
            s3_endpoint=given.get("AWS_ENDPOINT_URL", ""),
            s3_region=given.get("AWS_REGION", given.get("AWS_DEFAULT_REGION", "")),
            **parsed,
        )
        if settings.on_s3:
            _reachable(given)
        return settings

    def environ(self) -> dict[str, str]:
        """Return the environment variables that give these settings in another process."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        kafka, s3 = own.pop("kafka"), {"AWS_ENDPOINT_URL": own.pop("s3_endpoint"), "AWS_REGION": own.pop("s3_region")}
        return {
            **{variable_of(name): str(value or "") for name, value in own.items()},
            # AWS's own libraries take an empty variable for a value.
            **{variable: value for variable, value in s3.items() if value},
            **{kafka_variable(name): value for name, value in kafka.items()},
        }

    @property
    def on_s3(self) -> bool:
        """Whether tables or data are on S3, so that the engine needs its jars."""
        return any(place.startswith(("s3://", "s3a://")) for place in (self.tables, self.data))

    @property
    def lands_files(self) -> bool:
        """Whether the process that runs epochs reads text files itself: the engine has to see what it lands."""
        if self.file_reader == "auto":
            return self.engine == "auto" or self.engine.startswith("local[")
        return self.file_reader == "driver"

    @property
    def data_folder(self) -> Path:
        """The data folder, where it is a folder of this machine; SettingsError where it is not."""
        if "://" in self.data:
            raise SettingsError(
                f"RIVERMEET_DATA={self.data} is no local folder; feeds write to one", variable="RIVERMEET_DATA"
            )
        return Path(self.data)

    @property
    def dagster_home(self) -> Path:
        """Folder of the Dagster instance (runs, event log)."""
        return self.home / "dagster"

    @property
    def reports(self) -> Path:
        """Folder of the quality report and Data Docs."""
        return self.home / "reports"

    @property
    def landing(self) -> Path:
        """Folder of what is read of files, topics and databases, epoch by epoch."""
        return self.home / "landing"

    @property
    def schemas(self) -> Path:
        """Folder of the schemas that the registry has given."""
        return self.home / "schemas"

    @property
    def spill(self) -> Path:
        """Folder for what DuckDB does not hold in memory."""
        return self.home / "spill"

    @property
    def engine_home(self) -> Path:
        """Folder of the warm engine's state, token and log."""
        return self.home / "engine"


def project_file(env: Mapping[str, str]) -> ProjectFile | None:
    """What the file of the current project says; None outside of any project.

    A checkout is a project of its own, and the one of its code where no other is near.
    """
    named = env.get("RIVERMEET_PROJECT")
    if named:
        return read_project(Path(named).expanduser().absolute())
    root = find_project(Path.cwd())
    if root is None and (PROJECT / FILE).is_file():
        root = PROJECT
    return None if root is None else read_project(root)


def default_cache(env: Mapping[str, str]) -> Path:
    """Where jars are unless ``RIVERMEET_CACHE`` says: in the user's cache folder, or, of a checkout, in ``.jars``.

    So `make`, which looks for `.jars/.fetched` beside the Makefile, and the rest of a checkout share one folder.
    """
    if (PROJECT / "Makefile").is_file():
        return PROJECT / ".jars"
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rivermeet"


def _location(variable: str, given: Mapping[str, str], default: Path) -> str:
    value = given.get(variable)
    if value is None:
        return str(default)
    if not _URL.match(value):
        return str(Path(value).expanduser().absolute())
    if redact(value) != value:
        raise SettingsError(
            f"{variable}={redact(value)} holds a credential, which plans, commits and logs would show; leave it out "
            "and give it to the engine, for S3 as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            variable=variable,
        )
    return value


def _usable(variable: str, location: str) -> str:
    found = None if _URL.match(location) else _TROUBLE.search(location)
    if found:
        raise SettingsError(
            f"{variable}={location} has {found[0]} in it, which delta-rs cannot have in a path; "
            "name a folder without it",
            variable=variable,
        )
    return location


def _reachable(given: Mapping[str, str]) -> None:
    endpoint = given.get("AWS_ENDPOINT_URL", "")
    if endpoint and not re.match(r"https?://[^\s]+$", endpoint):
        raise SettingsError(
            f"AWS_ENDPOINT_URL={redact(endpoint)} is no URL; write https://host:port", variable="AWS_ENDPOINT_URL"
        )
    if endpoint.startswith("http:") and given.get("AWS_ALLOW_HTTP", "").lower() not in ("true", "1"):
        raise SettingsError(
            f"AWS_ENDPOINT_URL={redact(endpoint)} is not encrypted; use https, or set AWS_ALLOW_HTTP=true",
            variable="AWS_ENDPOINT_URL",
        )


def _kafka(given: Mapping[str, str]) -> Mapping[str, str]:
    """Librdkafka's properties; one that would change what an epoch reads is refused."""
    found: dict[str, str] = {}
    for variable, value in given.items():
        name = kafka_property(variable)
        if name in KAFKA_FIXED and variable != "RIVERMEET_KAFKA":
            raise SettingsError(
                f"{variable} cannot be set: an epoch reads what its plan says, in one way; unset it", variable=variable
            )
        if name is not None:
            found[name] = value
    return found


def _choice(*choices: str) -> Callable[[str, str], str]:
    def parse(variable: str, value: str) -> str:
        if value not in choices:
            listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
            raise SettingsError(f"{variable}={value} cannot be used; give {listed}", variable=variable)
        return value

    return parse


def _registry(variable: str, value: str) -> str:
    if not re.match(r"https?://[^\s]+$", value):
        raise SettingsError(
            f"{variable} is no URL; write http://host:port or https://host:port/path", variable=variable
        )
    return value.rstrip("/")


def _engine(variable: str, value: str) -> str:
    if not _ENGINE.fullmatch(value):
        raise SettingsError(f"{variable}={redact(value)!r} is not an engine; use {ENGINES}", variable=variable)
    return value


def _memory(variable: str, value: str) -> str:
    if not _MEMORY.fullmatch(value):
        raise SettingsError(f"{variable}={value!r} is not an amount of memory; write 4g or 512m", variable=variable)
    return value.lower()


def _number(lowest: float, highest: float, what: str) -> Callable[[str, str], float]:
    def parse(variable: str, value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not lowest <= number <= highest:
            raise SettingsError(f"{variable}={value!r} cannot be used; give {what}", variable=variable)
        return number

    return parse


def _port(lowest: int) -> Callable[[str, str], int]:
    def parse(variable: str, value: str) -> int:
        if not value.isdecimal() or not lowest <= int(value) <= 65535:
            free = "" if lowest else ", or 0 for a free one"
            raise SettingsError(f"{variable}={value!r} is not a port; use 1 to 65535{free}", variable=variable)
        return int(value)

    return parse


_PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    "engine": _engine,
    "jars": lambda _, value: Path(value).expanduser().absolute(),
    "engine_idle_minutes": _number(sys.float_info.min, sys.float_info.max, "a positive number of minutes"),
    "engine_memory": _memory,
    "engine_port": _port(0),
    "engine_aot_cache": _choice("on", "off"),
    "reports_port": _port(1),
    "fold": _choice("run", "due"),
    "topic_reader": _choice("driver", "engine"),
    "file_reader": _choice("auto", "driver", "engine"),
    "postgres": lambda _, value: value,
    "schema_registry": _registry,
    "lease_seconds": _number(1, 3600, "a number of seconds from 1 to 3600"),
    "judge": _choice("auto", "duckdb", "spark"),
    "judge_memory": _memory,
}
"""What makes a field of its variable's value, of those that depend on no other."""
