"""The one error of declarations."""

from __future__ import annotations


class DeclarationError(ValueError):
    """A declaration that cannot mean anything; says which pipeline, which node, and what would do."""

    def __init__(self, pipeline: str, node: str, problem: str) -> None:
        super().__init__(f"pipeline '{pipeline}', node '{node}': {problem}")
        self.pipeline = pipeline
        self.node = node
        self.problem = problem


def listed(choices: object) -> str:
    """Choices as an error message lists them: ``'a', 'b'``."""
    return ", ".join(repr(choice) for choice in choices)  # pyright: ignore[reportGeneralTypeIssues]
