"""Settings: the environment, and the project's `rivermeet.toml` below it, read once, checked, and frozen.

A location stands in plans, Delta commits, SQL and Dagster's metadata, so that one with a credential in it is refused;
what a message shows of it is `redacted`. Held by ``tests/infra/engine/test_doors.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rivermeet.infra.project_file import FILE, ProjectFile, find_project, kafka_property, kafka_variable, read_project
from rivermeet.infra.redaction import redacted
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
    """Where things are and which engine runs the joins.

    Parameters
    ----------
    project : Path or None
        ``RIVERMEET_PROJECT``: folder of the project; else the nearest with a ``rivermeet.toml``, from the current one
        upwards. None where there is none.
    cache : Path
        ``RIVERMEET_CACHE``: what is fetched once for all projects (`default_cache`).
    home : Path
        ``RIVERMEET_HOME``: all that a run writes, unless `tables` says otherwise.
    tables : str
        ``RIVERMEET_TABLES``: folder or URL of the Delta tables.
    data : str
        ``RIVERMEET_DATA``: folder or URL against which relative source paths are resolved.
    engine : str
        ``RIVERMEET_ENGINE``: ``auto`` (the warm local engine), ``sc://…``, ``local[…]``,
        ``spark://…``.
    jars : Path or None
        ``RIVERMEET_JARS``: folder of jars that replaces the download.
    engine_idle_minutes : float
        ``RIVERMEET_ENGINE_IDLE_MINUTES``: the warm engine stops after so long without a client.
    engine_memory : str
        ``RIVERMEET_ENGINE_MEMORY``: heap of the engine's JVM, such as ``4g``.
    engine_port : int
        ``RIVERMEET_ENGINE_PORT``: 0 takes any free port.
    engine_aot_cache : bool
        ``RIVERMEET_ENGINE_AOT_CACHE``: ``on`` lets the engine of JDK 25 or newer leave an ahead-of-time cache to the
        next one, ``off`` removes it.
    reports_port : int
        ``RIVERMEET_REPORTS_PORT``: where `rivermeet ui` serves the reports, and links in Dagster lead.
    fold : str
        ``RIVERMEET_FOLD``: ``due`` folds tables that other nodes read when that is due, ``run`` in each run.
    topic_reader : str
        ``RIVERMEET_TOPIC_READER``: ``driver`` reads topics in the process that runs epochs, ``engine`` by Spark's own
        source.
    file_reader : str
        ``RIVERMEET_FILE_READER``: ``driver`` reads text files of this machine in the process that runs epochs,
        ``engine`` by Spark's own readers, and ``auto`` by these where the engine may be of another machine.
    kafka : mapping
        librdkafka's properties: ``bootstrap.servers`` from ``RIVERMEET_KAFKA``, ``sasl.password`` from
        ``RIVERMEET_KAFKA_SASL_PASSWORD``, and so on.
    postgres : str
        ``RIVERMEET_POSTGRES``: libpq's connection string or URL, such as ``service=shop``; without its database, which
        is in the declarations.
    schema_registry : str
        ``RIVERMEET_SCHEMA_REGISTRY``: URL of the schema registry, with user and password if it asks for them.
    s3_endpoint, s3_region : str
        ``AWS_ENDPOINT_URL``, ``AWS_REGION``: where S3 is. Credentials are no setting: who needs them looks by itself.
    judge : str
        ``RIVERMEET_JUDGE``: who evaluates checks: ``duckdb`` in the run's own process, ``spark``, or ``auto``.
    judge_memory : str
        ``RIVERMEET_JUDGE_MEMORY``: what DuckDB may take for one evaluation, such as ``1g``; the rest is spilled.
    lease_seconds : float
        ``RIVERMEET_LEASE_SECONDS``: tables at a URL are another machine's after so long without a word of ours.
    """

    home: Path
    tables: str
    data: str
    cache: Path
    project: Path | None = None
    engine: str = field(default="auto", repr=False)
    jars: Path | None = None
    engine_idle_minutes: float = 30.0
    engine_memory: str = "4g"
    engine_port: int = 0
    engine_aot_cache: bool = True
    reports_port: int = 3001
    fold: Literal["run", "due"] = "due"
    topic_reader: Literal["driver", "engine"] = "driver"
    file_reader: Literal["auto", "driver", "engine"] = "auto"
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    postgres: str = field(default="", repr=False)
    schema_registry: str = field(default="", repr=False)
    s3_endpoint: str = ""
    s3_region: str = ""
    lease_seconds: float = 60.0
    judge: Literal["auto", "duckdb", "spark"] = "auto"
    judge_memory: str = "1g"

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read `env`, or else ``os.environ``, and what it leaves open from the project's file.

        Raises
        ------
        SettingsError
            If a setting has a value that cannot be used; the message names it.
        ProjectFileError
            If the project's file cannot be read, or ``RIVERMEET_PROJECT`` is no project.
        """
        # An empty variable means unset, as in a shell's `VAR= command`.
        given = {k: v for k, v in (os.environ if env is None else env).items() if v}
        file = project_file(given)
        if file is None:
            return cls._checked(given, None)
        try:
            return cls._checked({**file.variables, **given}, file.root)
        except SettingsError as error:
            raise SettingsError(file.named(str(error), given), **error.fields) from None

    @classmethod
    def _checked(cls, given: Mapping[str, str], project: Path | None) -> Settings:
        cache = Path(given.get("RIVERMEET_CACHE", default_cache(given))).expanduser().absolute()
        home = Path(given.get("RIVERMEET_HOME", (project or cache) / ".rivermeet")).expanduser().absolute()
        if home.exists() and not home.is_dir():
            raise SettingsError(f"RIVERMEET_HOME={home} is a file; name a folder", variable="RIVERMEET_HOME")
        _usable("RIVERMEET_HOME", str(home))
        jars = given.get("RIVERMEET_JARS")
        settings = cls(
            home=home,
            cache=cache,
            project=project,
            tables=_usable("RIVERMEET_TABLES", _location("RIVERMEET_TABLES", given, home / "tables")),
            data=_location("RIVERMEET_DATA", given, home / "data"),
            engine=_engine(given.get("RIVERMEET_ENGINE", "auto")),
            jars=Path(jars).expanduser().absolute() if jars else None,
            engine_idle_minutes=_minutes(given.get("RIVERMEET_ENGINE_IDLE_MINUTES", "30")),
            engine_memory=_memory("RIVERMEET_ENGINE_MEMORY", given.get("RIVERMEET_ENGINE_MEMORY", "4g")),
            engine_port=_port("RIVERMEET_ENGINE_PORT", given, 0),
            engine_aot_cache=_aot_cache(given.get("RIVERMEET_ENGINE_AOT_CACHE", "on")),
            reports_port=_port("RIVERMEET_REPORTS_PORT", given, 3001, lowest=1),
            fold=_fold(given.get("RIVERMEET_FOLD", "due")),
            topic_reader=_topic_reader(given.get("RIVERMEET_TOPIC_READER", "driver")),
            file_reader=_file_reader(given.get("RIVERMEET_FILE_READER", "auto")),
            kafka=_kafka(given),
            postgres=given.get("RIVERMEET_POSTGRES", ""),
            schema_registry=_registry(given.get("RIVERMEET_SCHEMA_REGISTRY", "")),
            s3_endpoint=given.get("AWS_ENDPOINT_URL", ""),
            s3_region=given.get("AWS_REGION", given.get("AWS_DEFAULT_REGION", "")),
            lease_seconds=_seconds(given.get("RIVERMEET_LEASE_SECONDS", "60")),
            judge=_judge(given.get("RIVERMEET_JUDGE", "auto")),
            judge_memory=_memory("RIVERMEET_JUDGE_MEMORY", given.get("RIVERMEET_JUDGE_MEMORY", "1g")),
        )
        if settings.on_s3:
            _reachable(given)
        return settings

    def environ(self) -> dict[str, str]:
        """Return the environment variables that give these settings in another process."""
        return {
            "RIVERMEET_PROJECT": str(self.project or ""),
            "RIVERMEET_CACHE": str(self.cache),
            "RIVERMEET_HOME": str(self.home),
            "RIVERMEET_TABLES": self.tables,
            "RIVERMEET_DATA": self.data,
            "RIVERMEET_ENGINE": self.engine,
            "RIVERMEET_JARS": str(self.jars or ""),
            "RIVERMEET_ENGINE_IDLE_MINUTES": str(self.engine_idle_minutes),
            "RIVERMEET_ENGINE_MEMORY": self.engine_memory,
            "RIVERMEET_ENGINE_PORT": str(self.engine_port),
            "RIVERMEET_ENGINE_AOT_CACHE": "on" if self.engine_aot_cache else "off",
            "RIVERMEET_REPORTS_PORT": str(self.reports_port),
            "RIVERMEET_FOLD": self.fold,
            "RIVERMEET_TOPIC_READER": self.topic_reader,
            "RIVERMEET_FILE_READER": self.file_reader,
            "RIVERMEET_POSTGRES": self.postgres,
            "RIVERMEET_SCHEMA_REGISTRY": self.schema_registry,
            "RIVERMEET_LEASE_SECONDS": str(self.lease_seconds),
            "RIVERMEET_JUDGE": self.judge,
            "RIVERMEET_JUDGE_MEMORY": self.judge_memory,
            # To AWS' own libraries an empty one would be another one.
            **({"AWS_ENDPOINT_URL": self.s3_endpoint} if self.s3_endpoint else {}),
            **({"AWS_REGION": self.s3_region} if self.s3_region else {}),
            **{kafka_variable(name): value for name, value in self.kafka.items()},
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
    """What the file of the project says that is worked in; None where that is in no project.

    A checkout is a project of its own, and the one of its code where no other is near.

    Raises
    ------
    ProjectFileError
        If it cannot be read.
    """
    named = env.get("RIVERMEET_PROJECT")
    if named:
        return read_project(Path(named).expanduser().absolute())
    root = find_project(Path.cwd())
    if root is None and (PROJECT / FILE).is_file():
        root = PROJECT
    return None if root is None else read_project(root)


def is_checkout() -> bool:
    """Whether this code is in the repository, with its Makefile, and not installed."""
    return (PROJECT / "Makefile").is_file()


def default_cache(env: Mapping[str, str]) -> Path:
    """Where jars are unless ``RIVERMEET_CACHE`` says: in the user's cache folder, or, of a checkout, in ``.jars``.

    So `make`, which looks for `.jars/.fetched` beside the Makefile, and the rest of a checkout share one folder.
    """
    if is_checkout():
        return PROJECT / ".jars"
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rivermeet"


def _location(variable: str, given: Mapping[str, str], default: Path) -> str:
    value = given.get(variable)
    if value is None:
        return str(default)
    if not _URL.match(value):
        return str(Path(value).expanduser().absolute())
    if redacted(value) != value:
        raise SettingsError(
            f"{variable}={redacted(value)} holds a credential, which plans, commits and logs would show; leave it out "
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
            f"AWS_ENDPOINT_URL={redacted(endpoint)} is no URL; write https://host:port", variable="AWS_ENDPOINT_URL"
        )
    if endpoint.startswith("http:") and given.get("AWS_ALLOW_HTTP", "").lower() not in ("true", "1"):
        raise SettingsError(
            f"AWS_ENDPOINT_URL={redacted(endpoint)} is not encrypted; use https, or set AWS_ALLOW_HTTP=true",
            variable="AWS_ENDPOINT_URL",
        )


def _aot_cache(value: str) -> bool:
    if value == "on" or value == "off":
        return value == "on"
    raise SettingsError(f"RIVERMEET_ENGINE_AOT_CACHE={value}; give on or off", variable="RIVERMEET_ENGINE_AOT_CACHE")


def _fold(value: str) -> Literal["run", "due"]:
    if value == "run" or value == "due":
        return value
    raise SettingsError(f"RIVERMEET_FOLD={value}; give run or due", variable="RIVERMEET_FOLD")


def _topic_reader(value: str) -> Literal["driver", "engine"]:
    if value == "driver" or value == "engine":
        return value
    raise SettingsError(f"RIVERMEET_TOPIC_READER={value}; give driver or engine", variable="RIVERMEET_TOPIC_READER")


def _file_reader(value: str) -> Literal["auto", "driver", "engine"]:
    if value == "auto" or value == "driver" or value == "engine":
        return value
    raise SettingsError(f"RIVERMEET_FILE_READER={value}; give auto, driver or engine", variable="RIVERMEET_FILE_READER")


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


def _registry(value: str) -> str:
    if value and not re.match(r"https?://[^\s]+$", value):
        raise SettingsError(
            "RIVERMEET_SCHEMA_REGISTRY is no URL; write http://host:port or https://host:port/path",
            variable="RIVERMEET_SCHEMA_REGISTRY",
        )
    return value.rstrip("/")


def _engine(value: str) -> str:
    if not _ENGINE.fullmatch(value):
        raise SettingsError(
            f"RIVERMEET_ENGINE={redacted(value)!r} is not an engine; use {ENGINES}", variable="RIVERMEET_ENGINE"
        )
    return value


def _memory(variable: str, value: str) -> str:
    if not _MEMORY.fullmatch(value):
        raise SettingsError(f"{variable}={value!r} is not an amount of memory; write 4g or 512m", variable=variable)
    return value.lower()


def _minutes(value: str) -> float:
    try:
        minutes = float(value)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < float("inf"):
        raise SettingsError(
            f"RIVERMEET_ENGINE_IDLE_MINUTES={value!r} is not a positive number of minutes",
            variable="RIVERMEET_ENGINE_IDLE_MINUTES",
        )
    return minutes


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise SettingsError(
            f"RIVERMEET_LEASE_SECONDS={value!r} is not a number of seconds from 1 to 3600",
            variable="RIVERMEET_LEASE_SECONDS",
        )
    return seconds


def _judge(value: str) -> Literal["auto", "duckdb", "spark"]:
    if value == "auto" or value == "duckdb" or value == "spark":
        return value
    raise SettingsError(f"RIVERMEET_JUDGE={value}; give auto, duckdb or spark", variable="RIVERMEET_JUDGE")


def _port(variable: str, given: Mapping[str, str], default: int, lowest: int = 0) -> int:
    value = given.get(variable, str(default))
    if not value.isdecimal() or not lowest <= int(value) <= 65535:
        free = "" if lowest else ", or 0 for a free one"
        raise SettingsError(f"{variable}={value!r} is not a port; use 1 to 65535{free}", variable=variable)
    return int(value)
