"""A project is a value that is passed: two of them in a process do not meet, and no module keeps one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from rivermeet.assets.cli.main import main
from rivermeet.assets.project import Project
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Files, Pipeline
from tests.assets.home import project_in
from tests.project.test_imports import PACKAGES, name_of, sources

SHOP = Pipeline("shop")
orders = SHOP.stream(
    "orders", Files("*.csv", "csv", {"id": "STRING", "at": "BIGINT"}), key=["id"], timestamp="at", partitions=1
)


@pytest.fixture
def one(tmp_path: Path) -> Project:
    return project_in(tmp_path / "one", Settings.from_env({}), SHOP)


def test_two_of_a_process_do_not_meet(one: Project, tmp_path: Path) -> None:
    said: list[str] = []
    other = project_in(tmp_path / "other", one.settings, SHOP, say=said.append, tables="s3://lake/tables")
    assert one.context(SHOP) is one.context(SHOP) is not other.context(SHOP)
    assert one.paths(orders).changelog == str(tmp_path / "one/tables/shop/orders/changelog")
    assert other.paths(orders).changelog == other.context(SHOP).paths(orders).changelog != one.paths(orders).changelog
    # Of tables behind a URL the log and the verdicts lie with them: several homes share these.
    assert (one.epochs(SHOP), other.epochs(SHOP)) == (
        str(tmp_path / "one/epochs/shop"),
        "s3://lake/tables/_epochs/shop",
    )
    assert (one.quality.table, other.quality.table) == (str(tmp_path / "one/quality"), "s3://lake/tables/_quality")


def test_another_project_on_the_same_engine(one: Project, tmp_path: Path) -> None:
    other = replace(one, settings=replace(one.settings, home=tmp_path, engine="sc://elsewhere:1"))
    assert other.sessions is one.sessions and other.pipelines == (SHOP,)
    # Its locks name the engine that its sessions are on, so that a run after it can end what it left there.
    assert other.context(SHOP).engine == one.sessions.settings.engine_home
    assert other.context(SHOP) is not one.context(SHOP)


def test_a_command_works_on_the_one_that_it_is_given(one: Project) -> None:
    done = CliRunner().invoke(main, ["status", "shop"], obj=one)
    assert (done.exit_code, done.output.splitlines()[0]) == (0, "shop"), done.output
    refused = CliRunner().invoke(main, ["status", "flights"], obj=one)
    assert refused.output == "Error: no pipeline 'flights'; there are shop\n"


STATE = {
    "infra.delta.lines._behind": "the newest version of tables behind a URL, asked again by the tag of its commit",
    "infra.delta.io._views": "what a session has open, by session",
    "infra.engine.fit._compiled": "what a session is set to, by session",
    "infra.engine.session._lost": "why the engine before was given up",
    "infra.engine.session._open": "the sessions of the process",
    "infra.engine.fit._partitions": "what a session is set to, by session",
    "infra.epochs.node_lock._LEASES": "the leases that the process holds, by the folder of the lock",
    "infra.source_range._classes": "the registered kinds of ranges",
    "infra.sources.kind.KINDS": "the registered kinds of sources",
    "infra.sources.postgres.slot._held": "transactions that keep a snapshot, by database and slot",
}
"""What modules keep for the whole process, and of what; the list may only shrink. Nothing in `assets` is there."""
CONTAINERS = {"dict", "list", "set", "local", "defaultdict", "OrderedDict", "WeakKeyDictionary"}


def kept(source: str) -> Iterator[str]:
    """Names of a module that are empty to begin with, or that a function of it binds again."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_empty(node.value):
            yield from (ast.unparse(to) for to in (node.targets if isinstance(node, ast.Assign) else [node.target]))
    yield from (name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names)


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return not value.args and not value.keywords and ast.unparse(value.func).rpartition(".")[2] in CONTAINERS
    return isinstance(value, ast.Dict | ast.List) and not ast.unparse(value).strip("{}[]")


def test_what_modules_keep_for_the_process_is_listed() -> None:
    found = {
        f"{name_of(file)}.{name}"
        for package in PACKAGES
        for file in sources(package)
        for name in kept(file.read_text())
    }
    assert found == STATE.keys()


def test_it_would_be_found() -> None:
    source = "_made: dict[str, int] = {}\n_x = None\nA = {1: 2}\ndef use(x):\n    global _x\n    _x = x\n"
    assert [*kept(source)] == ["_made", "_x"]
