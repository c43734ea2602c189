"""Relations that are made of others, once for all queries that name them.

``{reached}`` has stream time per partition before the epoch (``started``) and after it (``reached``). ``{arrived}`` has
the records that the epoch affects, with what follows from their order alone, and ``{made_of}`` the rows beside the
records that they are made of: what that is, the ``DERIVED`` of a family's rules say. Held by
``tests/expectations/test_invariants.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rivermeet.pipelines import Node
from rivermeet.pipelines.family import family_of

HEAD = "max(timestamp) OVER (PARTITION BY partition ORDER BY offset)"
"""Stream time of an input's new records up to one, by its partition."""
SO_FAR = """max(CASE WHEN is_new THEN timestamp END)
         OVER (PARTITION BY partition ORDER BY offset ROWS UNBOUNDED PRECEDING)"""
"""The same where old records are among them."""


def _select_reached(node: Node) -> str:
    return """SELECT partition, max(started) AS started, max(timestamp) AS reached
FROM (SELECT partition, timestamp, CAST(NULL AS BIGINT) AS started FROM {new_left}
      UNION ALL SELECT partition, timestamp, NULL FROM {new_right}
      UNION ALL SELECT partition, stream_time, stream_time FROM {times}) GROUP BY partition"""


def derive(node: Node) -> Mapping[str, Callable[[Node], str]]:
    """Name to the query over other relations."""
    return {"reached": _select_reached, **of_family(node, "DERIVED", {})}


def of_family(node: Node, name: str, default: object = None) -> Any:
    """What the rules of a node's family have under a name; ``default`` where there is none, or no family."""
    module = family_of(node.operation).rules_module if node.operation is not None else None
    return getattr(module, name, default)
