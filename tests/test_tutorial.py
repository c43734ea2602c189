"""The tutorial, done as it says: its files, its pipeline, its runs, its rows."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rivermeet.infra.settings import Settings
from tests.assets.home import Home, homed

PAGE = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text()
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [body for found, body in _FENCE.findall(PAGE) if found == language]


def paths(suffix: str) -> list[str]:
    """Where the page says that files are to be saved, relative to the data folder."""
    return re.findall(rf"`\.rivermeet/data/([\w/]+\.{suffix})`", PAGE)


@pytest.fixture
def home(tmp_path: Path, settings: Settings) -> Iterator[Home]:
    names: dict[str, Any] = {}
    (program,) = blocks("python")
    exec(program, names)
    with homed(names["PIPELINE"], tmp_path / ".rivermeet", settings) as found:
        yield found


@pytest.mark.slow
def test_it_goes_as_the_page_says(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (orders,), (monday, tuesday) = blocks("csv"), blocks("json")
    save(home.data / paths("csv")[0], orders)
    first, second = paths("jsonl")
    save(home.data / first, monday)
    said = blocks("text")
    assert home.run()
    # Nodes go side by side: either of the two sources may be done first.
    assert sorted(without_seconds(home.said)) == sorted(said[0].splitlines())

    monkeypatch.chdir(tmp_path)
    (session,) = blocks("pycon")
    test = doctest.DocTestParser().get_doctest(session, {}, "tutorial", "tutorial.md", 0)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)

    save(home.data / second, tuesday)
    assert home.run()
    lines = [line for line in without_seconds(home.said) if "VIOLATED" not in line]
    assert sorted(lines) == sorted(said[1].splitlines())
    assert any("VIOLATED" in line and "dropped as late" in line for line in home.said), home.said


def save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def without_seconds(said: list[str]) -> list[str]:
    """What a run said, in the order of nodes' names."""
    return sorted(re.sub(r"; [\d.]+ s$", "", line) for line in said)
