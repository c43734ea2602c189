"""README and pages say what is there: examples run, and every command, setting and link named in them exists."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from rivermeet.assets.cli.main import main
from rivermeet.infra.settings import Settings

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()
REFERENCE = PROJECT / "docs" / "reference"
SHOP = [README, (PROJECT / "docs" / "guides" / "own-rules.md").read_text()]
"""Pages with one declaration among them."""
GUIDES = [
    README,
    *(page.read_text() for name in ("guides", "reference") for page in sorted((PROJECT / "docs" / name).glob("*.md"))),
    *((PROJECT / "docs" / f"{name}.md").read_text() for name in ("contributing", "exactly-once", "tutorial")),
]
"""Pages whose commands, options, files and settings must be there."""
PAGES = [PROJECT / "README.md", PROJECT / "CHANGELOG.md", *sorted((PROJECT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")


def blocks(language: str) -> list[str]:
    return [body for page in SHOP for found, body in _FENCE.findall(page) if found == language]


def code() -> list[str]:
    """What pages set as code: lines of fenced blocks, and inline code."""
    lines = [line for page in GUIDES for _, body in _FENCE.findall(page) for line in body.splitlines()]
    return lines + [text for page in GUIDES for text in re.findall(r"`([^`\n]+)`", _FENCE.sub("", page))]


def test_declarations_run_without_spark() -> None:
    program = "\n".join([*blocks("python"), "import sys", "print('pyspark' in sys.modules)"])
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"


def test_sessions_answer_as_printed() -> None:
    names: dict[str, Any] = {}
    for block in blocks("python"):
        exec(block, names)
    sessions = blocks("pycon")
    assert sessions
    for text in sessions:
        test = doctest.DocTestParser().get_doctest(text, names, "README", "README.md", 0)
        report: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
        assert not report, "".join(report)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    named = {target for text in code() for target in re.findall(r"^(?:\S+=\S+ )*make ([a-z-]+)", text, re.MULTILINE)}
    assert {"demo", "ui", "test"} <= named
    assert named <= targets


def commands_named() -> list[list[str]]:
    found = (re.match(r"(?:\S*/)?rivermeet (?:--project \S+ )?((?!-)(?:[\w-]+ ?)+)", text) for text in code())
    return [match[1].split() for match in found if match]


def test_commands_are_found() -> None:
    assert {"run", "status", "feed", "demo", "ui", "engine"} <= {words[0] for words in commands_named()}


@pytest.mark.parametrize("words", commands_named(), ids=" ".join)
def test_command_exists(words: list[str]) -> None:
    runner = CliRunner()
    command: click.Command = main
    path: list[str] = []
    while isinstance(command, click.Group) and words:
        assert words[0] in runner.invoke(main, [*path, "--help"]).output
        assert words[0] in command.commands, " ".join(words)
        command = command.commands[words[0]]
        path, words = [*path, words[0]], words[1:]
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_options_exist() -> None:
    """Options may also be named by themselves, beside their command; those of Dagster's programs are not ours."""
    ours = [text for text in code() if not text.startswith(("create-dagster ", "dg "))]
    groups = [main, *(command for command in main.commands.values() if isinstance(command, click.Group))]
    commands = [*groups, *(command for group in groups for command in group.commands.values())]
    known = {name for command in commands for parameter in command.params for name in parameter.opts}
    assert {word for text in ours for word in re.findall(r"(?<!\S)--[a-z][a-z-]*", text)} <= known


def test_settings_are_all_named() -> None:
    named = set(re.findall(r"RIVERMEET_[A-Z_]+", (REFERENCE / "settings.md").read_text()))
    # All that begin so are librdkafka's properties; one stands for them.
    family, one = "RIVERMEET_KAFKA_", "RIVERMEET_KAFKA_SASL_PASSWORD"
    given = {"RIVERMEET_KAFKA": "localhost:9092", one: "x"}
    assert named == set(Settings.from_env(given).environ()) | {family}


def test_markers_are_all_named() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    markers = {marker.split(":")[0] for marker in project["tool"]["pytest"]["ini_options"]["markers"]}
    section = (PROJECT / "docs" / "contributing.md").read_text().split("## Tests")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == markers


def test_files_exist() -> None:
    folders = "assets|docs|expectations|infra|joins|pipelines|tests"
    examples = {"pipelines/shop.py", "pipelines/till.py", "tests/test_shop.py"}
    named = {text for text in code() if re.fullmatch(rf"(\.ci|{folders})/[\w./-]*", text)} - examples
    assert named
    assert not [path for path in named if not (PROJECT / path).exists()]


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in _LINK.findall(_FENCE.sub("", page.read_text())):
            if not re.match(r"[a-z]+:", target):
                yield page, target


@pytest.mark.parametrize(("page", "target"), list(links()), ids=lambda x: x.name if isinstance(x, Path) else x)
def test_link_resolves(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    assert found.is_relative_to(PROJECT.resolve()) and found.exists(), f"{page.relative_to(PROJECT)}: {target}"
    if anchor:
        titles = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_every_decision_is_in_the_index() -> None:
    folder = PROJECT / "docs" / "decisions"
    pages = {page.name for page in folder.glob("*.md")} - {"README.md"}
    assert set(_LINK.findall((folder / "README.md").read_text())) == pages


@pytest.mark.slow
def test_the_matrix_is_what_the_tests_prove() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.matrix", "--check"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
