"""All sentences of each error, from the source: what the files of ``tests/errors`` hold.

    raise TopicMissingError(f"there is no topic '{topic}': make it, or …")      there is no topic '…': make it, or …

A placeholder is ``…``, so that a variable may get another name. Found are calls of an error's class, of a parameter
or an attribute that is one, and of functions that return one; ``super().__init__`` in a class of its own; and what a
name or a function that is given as the text stands for. What is still not found there, ``tests/project/test_errors.py``
raises.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

from rivermeet.pipelines.errors import RivermeetError

PROJECT = Path(__file__).parents[2]
PACKAGES = ("pipelines", "records", "joins", "expectations", "infra", "assets")
SENTENCES = PROJECT / "tests" / "errors"
PAGE = PROJECT / "docs" / "reference" / "errors.md"
ELSEWHERE = {
    "postgres-refused": ["the server says: … (…); `rivermeet check` says more"],
    "slot-busy": ["the server says: … (…); end what reads from it, and run again"],
    "pipeline-file": ["….py, line …: …"],
    "unreadable": ["the file has no column '…' (it has …); correct the file, or the schema of the source"],
}
"""Sentences that no call has as text; tests raise each."""
_HEAD = """# Errors

What you can act on is an error of this page, shown in one sentence: what is wrong, where, and what to do. Anything else
is a bug, and is shown with its traceback. In Python all are `RivermeetError`, with `code`, `remedy`, and `fields`: what
the sentence names. A failed step in Dagster has the code and the fields as metadata.

An indented code is of the kind above it: `except EpochRefusedError` has all that are below `epoch-refused`.

| code | what is wrong | what to do |
|---|---|---|
"""


@cache
def trees() -> Mapping[Path, ast.Module]:
    files = sorted(file for package in PACKAGES for file in (PROJECT / package).rglob("*.py"))
    return {file: ast.parse(file.read_text("utf-8")) for file in files}


@cache
def classes() -> Mapping[str, list[str]]:
    """Name of each class of an error to the modules that define one; a name with ``_`` never leaves its module."""
    found: dict[str, list[str]] = {}
    for file, tree in trees().items():
        module = ".".join(("rivermeet", *file.relative_to(PROJECT).with_suffix("").parts))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error") and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    return found


@cache
def errors() -> tuple[type[RivermeetError], ...]:
    """The tree, a kind before its own."""
    for modules in classes().values():
        for module in modules:
            importlib.import_module(module)
    return (RivermeetError, *_below(RivermeetError))


def _below(kind: type[RivermeetError]) -> Iterator[type[RivermeetError]]:
    for one in sorted(kind.__subclasses__(), key=lambda error: error.code):
        if one.__module__.startswith("rivermeet."):
            yield one
            yield from _below(one)


@cache
def sentences() -> Mapping[str, list[str]]:
    """Code to the sentences of that error, sorted."""
    codes = {error.__name__: error.code for error in errors()}
    found: dict[str, set[str]] = {code: set() for code in codes.values()}
    passed, attributes = _passed(codes), _attributes(codes)
    for tree in trees().values():
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        makers = {name: [code] for name, code in (codes | _makers(tree, codes)).items()}
        own = {
            node: codes[c.name] for c in tree.body if isinstance(c, ast.ClassDef) and c.name in codes for node in c.body
        }
        for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))):
            given_kinds = {p.arg: passed.get(getattr(scope, "name", ""), []) for p in _kinds(scope)}
            raised = makers | attributes | given_kinds | ({"__init__": [own[scope]]} if scope in own else {})
            for call in (node for node in _own(scope) if isinstance(node, ast.Call)):
                for code in raised.get(_name(call.func), []):
                    texts = (text for one in call.args for text in _texts(one, scope, functions))
                    found[code] |= {text for text in texts if _is_sentence(text)}
    return {code: sorted(texts) or ELSEWHERE.get(code, []) for code, texts in found.items()}


def _makers(tree: ast.Module, codes: Mapping[str, str]) -> dict[str, str]:
    """Functions that return an error, and `Node.refuse`."""
    made = {"refuse": codes["DeclarationError"]}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            named = [codes[name] for name in re.findall(r"\w+", ast.unparse(node.returns)) if name in codes]
            made.update({node.name: named[0]} if named else {})
    return made


def _attributes(codes: Mapping[str, str]) -> dict[str, list[str]]:
    """Attributes of classes that are the class of an error, such as a step's ``position_lost``."""
    found: dict[str, list[str]] = {}
    for node in (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)):
        if re.fullmatch(r"ClassVar\[type\[\w+Error\]\]", ast.unparse(node.annotation)) and node.value is not None:
            found.setdefault(_name(node.target), []).extend(
                code for name, code in codes.items() if name == _name(node.value)
            )
    return found


def _kinds(scope: ast.AST) -> list[ast.arg]:
    """Parameters that are the class of an error."""
    given = [*scope.args.args, *scope.args.kwonlyargs] if isinstance(scope, ast.FunctionDef) else []
    return [one for one in given if one.annotation and re.fullmatch(r"type\[\w+Error\]", ast.unparse(one.annotation))]


def _passed(codes: Mapping[str, str]) -> dict[str, list[str]]:
    """Functions that are given the class of an error, with those that they are given."""
    nodes = [node for tree in trees().values() for node in ast.walk(tree)]
    found: dict[str, list[str]] = {
        node.name: [] for node in nodes if isinstance(node, ast.FunctionDef) and _kinds(node)
    }
    for call in nodes:
        if isinstance(call, ast.Call) and _name(call.func) in found:
            found[_name(call.func)] += [codes[_name(one)] for one in call.args if _name(one) in codes]
    return found


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a module or function, without the functions inside it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef):
            yield node
            yield from _own(node)


def _texts(
    given: ast.expr, scope: ast.AST, functions: Mapping[str, ast.FunctionDef], seen: Set[str] = frozenset()
) -> Iterator[str]:
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        yield given.value
    elif isinstance(given, ast.JoinedStr):
        parts = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in given.values)
        yield re.sub("…+", "…", "".join(parts))
    elif isinstance(given, ast.IfExp):
        yield from _texts(given.body, scope, functions, seen)
        yield from _texts(given.orelse, scope, functions, seen)
    elif isinstance(given, ast.Name) and given.id not in seen:
        for node in _own(scope):
            if isinstance(node, ast.Assign) and any(_name(target) == given.id for target in node.targets):
                yield from _texts(node.value, scope, functions, seen | {given.id})
    elif isinstance(given, ast.Call) and (made := functions.get(_name(given.func))) and made.name not in seen:
        for node in _own(made):
            if isinstance(node, ast.Return) and node.value is not None:
                yield from _texts(node.value, made, functions, seen | {made.name})


def _is_sentence(text: str) -> bool:
    return " " in text and len(re.findall(r"[a-z]{2,}", text)) > 1


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def page() -> str:
    """The reference page."""
    rows = []
    for error in errors():
        depth = len([kind for kind in error.__mro__ if issubclass(kind, RivermeetError)]) - 1
        what = " ".join((error.__doc__ or "").split("\n\n")[0].split())
        rows.append(f"| {'&emsp;' * depth}`{error.code}` | {what} | {error.remedy} |\n")
    return _HEAD + "".join(rows)


def read(code: str) -> list[str]:
    """The sentences of a code, as its file has them."""
    return (SENTENCES / f"{code}.txt").read_text("utf-8").splitlines()


def write() -> None:
    """Write the page and the files."""
    PAGE.write_text(page(), "utf-8")
    for file in SENTENCES.glob("*.txt"):
        file.unlink()
    for code, texts in sentences().items():
        if texts:
            (SENTENCES / f"{code}.txt").write_text("".join(f"{text}\n" for text in texts), "utf-8")


if __name__ == "__main__":
    write()
