"""How nodes are named in Dagster.

The graph shows a key's last part only, so that part names the node too.
"""

from __future__ import annotations

import dagster as dg

from rivermeet.pipelines import Node


def changelog_key(node: Node) -> dg.AssetKey:
    """The node's changelog."""
    return dg.AssetKey([node.pipeline.name, f"{node.name}_changelog"])


def table_key(node: Node) -> dg.AssetKey:
    """The node's folded table."""
    return dg.AssetKey([node.pipeline.name, f"{node.name}_table"])


def keys_of(node: Node) -> list[dg.AssetKey]:
    """All assets that one step of the node commits together; of a view, those that it is resolved from."""
    if node.operation is not None and not node.is_stored:
        return [key for part in node.operation.inputs.values() for key in keys_of(part)]
    return [changelog_key(node), table_key(node)] if node.is_table else [changelog_key(node)]


def op_name(node: Node) -> str:
    """Name of the node's step."""
    return f"{node.pipeline.name}__{node.name}"
