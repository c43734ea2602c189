"""Functions are named by verbs; a participle names a value, so that a property, a field or a variable may be one.

``judged(rows)`` leaves open whether it judges the rows, asks whether they are, or gives those that are: `judge`,
``is_judged``, ``find_judged``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PRODUCT = ("assets", "benchmarks", "expectations", "infra", "joins", "pipelines", "records", "rivermeet")
PARTICIPLE = re.compile(
    r"[a-z]{2,}(ed|ing)|re(written|built)|begun|broken|brought|built|chosen|cut|drawn|found|given|gone|heard|held|hidden|"
    r"kept|known|laid|left|lost|made|met|paid|said|seen|sent|shown|spent|taken|thrown|understood|won|written"
)
VERBS = frozenset({"cut", "exceed", "feed", "need", "proceed", "seed", "bring", "ring", "sing"})
NOUNS = frozenset({"heading", "landing", "nothing", "setting", "string", "warning"})
ALLOWED = {
    "left_join": "Kafka Streams' leftJoin",
    "windowed_by": "Kafka Streams' windowedBy",
    "shadowed_by": "a verb of declarations, as windowed_by is",
    "modified": "of the interface that deltalake's file systems have",
}


def is_participle(name: str) -> bool:
    """Whether the first word of a name is a participle."""
    word = name.strip("_").split("_")[0]
    return word not in VERBS | NOUNS and PARTICIPLE.fullmatch(word) is not None


def functions(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of the functions; neither properties, nor rules, which have the name of their invariant."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(one).split("(")[0].split(".")[-1] for one in node.decorator_list}
            if not decorators & {"property", "cached_property", "Rule"}:
                yield node.lineno, node.name


def participles() -> dict[str, str]:
    """Place of each function of the product that is named by a participle, to its name."""
    return {
        f"{file.relative_to(PROJECT)}:{line}": name
        for package in PRODUCT
        for file in sorted((PROJECT / package).glob("**/*.py"))
        for line, name in functions(file.read_text("utf-8"))
        if is_participle(name)
    }


def test_no_function_is_named_by_a_participle() -> None:
    assert {place: name for place, name in participles().items() if name not in ALLOWED} == {}


def test_every_exception_is_needed() -> None:
    assert set(participles().values()) == ALLOWED.keys()


@pytest.mark.parametrize("name", ["judged", "_kept", "made_of", "found_by", "waiting_ms", "rebuilt"])
def test_a_participle_would_be_found(name: str) -> None:
    assert [found for _, found in functions(f"def {name}():\n    ...") if is_participle(found)] == [name]


@pytest.mark.parametrize(
    "source", ["@property\ndef judged(self): ...", "@Rule(1)\ndef made_of(node): ...", "def feed(): ..."]
)
def test_values_rules_and_verbs_are_not(source: str) -> None:
    assert [name for _, name in functions(source) if is_participle(name)] == []
