"""The reference pages have what is public, each once, and nothing else."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from importlib import import_module
from typing import Any, is_typeddict

import pytest
import yaml

from rivermeet.infra.settings import PROJECT
from rivermeet.pipelines import joining

PUBLIC = {
    f"{module}.{name}": getattr(import_module(module), name)
    for module in ("rivermeet", "rivermeet.dagster", "rivermeet.testing")
    for name in import_module(module).__all__
}
OPTIONS = {name for name, value in vars(joining).items() if is_typeddict(value)}
"""What the verbs take as keywords; nobody imports it."""
_SHOWN = re.compile(r"^::: (rivermeet[\w.]*)\n((?:    .*\n)*)", re.MULTILINE)
SHOWN = [found for page in sorted((PROJECT / "docs").rglob("*.md")) for found in _SHOWN.findall(page.read_text())]


def members(options: str) -> list[str]:
    return yaml.safe_load(options)["options"]["members"] if options else []


def test_every_public_name_is_shown_and_nothing_else() -> None:
    assert Counter(name for name, _ in SHOWN) == Counter([*PUBLIC, joining.__name__])


def test_options_are_shown_as_the_verbs_name_them() -> None:
    assert {*members(dict(SHOWN)[joining.__name__])} == OPTIONS


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_shown_is_described(name: str) -> None:
    public: Any = PUBLIC[name]
    assert inspect.getdoc(public)
    for member in members(dict(SHOWN)[name]):
        described = getattr(public, member, None) is not None and inspect.getdoc(getattr(public, member))
        assert described or re.search(rf"^{member}\b", str(inspect.getdoc(public)), re.MULTILINE), member


def test_types_are_for_users_too() -> None:
    assert (PROJECT / "rivermeet" / "py.typed").exists()
