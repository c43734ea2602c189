"""Why the bad rows of a report are there: for each key the command that shows it, and of the newest what it prints.

A row that breaks an invariant is as a rule the work of one record. `rivermeet why` walks back to it without the engine:

    cell                    bad row                        behind it
    newest epoch, violated  key {"id": "7"}, problem …     the command and its tree
    older epoch, violated   key {"id": "3"}, problem …     the command alone
    any                     key of an input, or no key     nothing: it is no key of the node

Held by ``tests/assets/reports/test_reasons.py``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from rich.console import Console

from rivermeet.assets.project import Project
from rivermeet.assets.why.answer import UNCUT, Answer, tree_of
from rivermeet.assets.why.changelogs import Changelogs
from rivermeet.assets.why.keys import KeyTextError, parse_key
from rivermeet.assets.why.records import Expressions
from rivermeet.assets.why.walk import Walk
from rivermeet.expectations.report.checks import Cell
from rivermeet.expectations.report.page import NodeHistory, Reason
from rivermeet.joins.why.evidence import Key
from rivermeet.pipelines import limits


@dataclass
class Reasons:
    """Walks back the bad rows of one page."""

    project: Project
    left: int = limits.WALKED_KEYS

    @cached_property
    def _changelogs(self) -> Changelogs:
        return Changelogs(self.project)

    def behind(self, shown: NodeHistory) -> NodeHistory:
        """The history with what is behind its bad rows, by the text of their keys."""
        standing = _keys(shown.checks.standing)
        keys = dict.fromkeys([*standing, *_keys(cell for row in shown.checks.rows for cell in row.cells)])
        if not keys or shown.committed is None:
            return shown
        return replace(shown, reasons={text: why for text in keys if (why := self._why(shown, text, text in standing))})

    def _why(self, shown: NodeHistory, text: str, stands: bool) -> Reason | None:
        node = shown.node
        try:
            key = parse_key(text, self._changelogs.of(node).key_type, node.name)
        except KeyTextError:
            return None
        command = shlex.join(["rivermeet", "why", node.pipeline.name, node.name, text])
        if not stands or not self.left:
            return Reason(command, "")
        self.left -= 1
        return Reason(command, self._tree(shown, key))

    def _tree(self, shown: NodeHistory, key: Key) -> str:
        # A home may have lost a file, or somebody changed a changelog: the page says so, and is still written.
        try:
            return _text(Walk(self._changelogs, Expressions(None)).why(shown.node, key, limits.WALKED_ROWS))
        except Exception as error:
            return f"not explained: {type(error).__name__}: {error}"


def _keys(cells: Iterable[Cell]) -> Mapping[str, None]:
    """The keys of some cells' bad rows, each once, in their order."""
    violated = (cell for cell in cells if cell.state == "violated")
    return dict.fromkeys(key for cell in violated for row in cell.sample if (key := row.get("key", "")).startswith("{"))


def _text(answer: Answer) -> str:
    console = Console(width=UNCUT, highlight=False, color_system=None)
    with console.capture() as printed:
        console.print(tree_of(answer), no_wrap=True, crop=False)
    return "\n".join(line.rstrip() for line in printed.get().splitlines())
