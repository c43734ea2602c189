"""How a pipeline's assets are named and grouped in Dagster.

The graph shows a key's last part only, so that part names the node too. Assets of a pipeline are selected by a tag:
several pipelines may share a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import dagster as dg

from rivermeet.pipelines import Node, Pipeline

PIPELINE = "rivermeet/pipeline"
"""Tag of an asset, and of a run: the pipeline's name."""


class Shown(TypedDict):
    """What Dagster takes of an asset beside its key."""

    group_name: str
    owners: list[str]
    tags: dict[str, str]


def key_of(pipeline: Pipeline, last: str) -> dg.AssetKey:
    """The key of an asset of a pipeline."""
    return dg.AssetKey([*pipeline.key_prefix, pipeline.name, last])


def describe_asset(pipeline: Pipeline, tags: Mapping[str, str] | None = None) -> Shown:
    """Group, owners and tags of an asset of a pipeline; ``tags`` are of this one alone."""
    return {
        "group_name": pipeline.group,
        "owners": list(pipeline.owners),
        "tags": {PIPELINE: pipeline.name, **(tags or {}), **pipeline.tags},
    }


def assets_of(pipeline: Pipeline) -> dg.AssetSelection:
    """All assets of a pipeline."""
    return dg.AssetSelection.tag(PIPELINE, pipeline.name)


def changelog_key(node: Node) -> dg.AssetKey:
    """The node's changelog."""
    return key_of(node.pipeline, f"{node.name}_changelog")


def table_key(node: Node) -> dg.AssetKey:
    """The node's folded table."""
    return key_of(node.pipeline, f"{node.name}_table")


def keys_of(node: Node) -> list[dg.AssetKey]:
    """All assets that one step of the node commits together; of a view, those that it is resolved from."""
    if node.operation is not None and not node.is_stored:
        return [key for part in node.operation.inputs.values() for key in keys_of(part)]
    return [changelog_key(node), table_key(node)] if node.is_table else [changelog_key(node)]


def op_name(node: Node) -> str:
    """Name of the node's step."""
    return f"{node.pipeline.name}__{node.name}"
