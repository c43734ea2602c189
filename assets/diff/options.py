"""A pipeline with other options of its joins, as ``rivermeet diff`` tries them without an edit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rivermeet.pipelines import DeclarationError, JoinWindow, Node, Operation, Pipeline
from rivermeet.pipelines.errors import OptionError
from rivermeet.pipelines.family import explain_refusal
from rivermeet.pipelines.rewrite import rewrite


@dataclass(frozen=True)
class Options:
    """Options in place of the declared ones.

    Attributes
    ----------
    semantics
        A profile.
    grace
        Of a window, in ms.
    window
        Of a stream-stream join, before and after, in ms.
    """

    semantics: str | None = None
    grace: int | None = None
    window: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return (self.semantics, self.grace, self.window) != (None, None, None)

    def apply(self, pipeline: Pipeline, selected: Collection[str]) -> Pipeline:
        """The pipeline with these options at the selected nodes; without any selected, wherever they fit.

        Raises
        ------
        DeclarationError
            If a selected node does not have an option, or no node has one.
        """
        taken: set[str] = set()

        def change(node: Node) -> Node:
            if node.operation is None or (selected and node.name not in selected):
                return node
            try:
                other = self._change(node.operation)
            except ValueError as error:
                if not selected:
                    return node
                raise DeclarationError(pipeline.name, node.name, str(error)) from None
            taken.add(node.name)
            return replace(node, origin=other)

        changed = rewrite(pipeline, change)
        if not taken:
            raise DeclarationError(pipeline.name, ", ".join(selected) or "*", "no node has such an option")
        return changed

    def _change(self, operation: Operation) -> Operation:
        made: Any = operation
        if self.semantics is not None:
            problem = (
                explain_refusal(made, self.semantics) if hasattr(made, "how") else f"a {made.family} has no profiles"
            )
            if problem is not None:
                raise OptionError(problem)
            made = replace(made, semantics=self.semantics)
        if self.window is not None:
            window = getattr(made, "window", None)
            if not isinstance(window, JoinWindow):
                raise OptionError(f"a {made.family} has no window of two streams")
            made = replace(made, window=JoinWindow(*self.window, window.grace))
        return made if self.grace is None else made.with_grace(self.grace)
