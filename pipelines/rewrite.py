"""A copy of a pipeline with changes: in one partition for a test, with another grace for a comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from rivermeet.pipelines.nodes import Node
from rivermeet.pipelines.pipeline import Pipeline

Change = Callable[[Node], Node]
"""Declares a node with the inputs of the new pipeline, and returns the new node."""


def rewrite(pipeline: Pipeline, change: Change) -> Pipeline:
    """The same nodes and checks in a new pipeline, each as returned by ``change``; topics are not written.

    Raises
    ------
    DeclarationError
        If a changed node cannot be declared.
    """
    made = Pipeline(pipeline.name, pipeline.description)
    for node in pipeline.nodes:
        fresh = change(replace(node, pipeline=made, origin=_with_inputs(node.origin, made)))
        made.add(fresh)
        for rule in pipeline.checks_of(node):
            made.check(fresh, rule.id, rule.sentence, rule.violations, severity=rule.severity, blocking=rule.blocking)
    return made


def _with_inputs(origin: Any, pipeline: Pipeline) -> Any:
    """An unchanged source, or an operation on the nodes of the new pipeline with the names of its inputs."""
    assert is_dataclass(origin) and not isinstance(origin, type)
    inputs = {f.name: value for f in fields(origin) if isinstance(value := getattr(origin, f.name), Node)}
    return replace(origin, **{name: pipeline.node(node.name) for name, node in inputs.items()})


def in_one_partition(node: Node) -> Node:
    """The node with all its records in one partition."""
    origin: Any = node.origin
    if getattr(origin, "partitions", None) is not None:
        origin = replace(origin, partitions=1)
    return replace(node, origin=origin, partitions=1)
