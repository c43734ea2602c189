"""A pipeline as a picture: Mermaid text, or a self-contained SVG.

    graph LR
      orders[("orders<br/>stream of files")]
      payments[("payments<br/>stream of files")]
      settled["settled<br/>left stream-stream"]
      orders --> settled
      payments --> settled

Nodes are placed from left to right, each one column after the last of its inputs, and at about the height of
its inputs. Held by ``tests/pipelines/test_graph.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Protocol

Node = Any
"""A node; its class imports the pipeline, which is drawn by this module."""


class Nodes(Protocol):
    """What is drawn: a pipeline."""

    name: str

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes, every input before the nodes that read it."""
        ...


WIDTH, HEIGHT, ACROSS, DOWN, EDGE = 190, 46, 70, 22, 12
"""Size of a box, distance between boxes, and margin of the picture, in pixels."""
FILL = {"stream": "#e8f1fb", "table": "#eef7ec", "windowed_table": "#eef7ec"}
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1b2733}.what{font-size:10px;fill:#5b6875}"
    "rect{stroke:#8aa0b5}path{fill:none;stroke:#8aa0b5}"
)


def mermaid(pipeline: Nodes) -> str:
    """The pipeline as Mermaid text: sources as cylinders, computed nodes as boxes."""
    lines = ["graph LR"]
    for node in pipeline.nodes:
        label = f'"{node.name}<br/>{describe(node)}"'
        # Reserved words of Mermaid, such as "end", are not allowed as names of boxes.
        lines.append(f"  n_{node.name}[({label})]" if node.source is not None else f"  n_{node.name}[{label}]")
    lines += [f"  n_{start.name} --> n_{end.name}" for start, end in _arrows(pipeline)]
    return "\n".join(lines) + "\n"


def svg(pipeline: Nodes) -> str:
    """The pipeline as an SVG picture."""
    columns = _columns(pipeline.nodes)
    places = {
        node.name: (EDGE + x * (WIDTH + ACROSS), EDGE + y * (HEIGHT + DOWN))
        for x, column in enumerate(columns)
        for y, node in enumerate(column)
    }
    width = 2 * EDGE + max(len(columns), 1) * (WIDTH + ACROSS) - ACROSS
    height = 2 * EDGE + max((len(column) for column in columns), default=1) * (HEIGHT + DOWN) - DOWN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="Pipeline {escape(pipeline.name)}"><style>{STYLE}</style>'
    ]
    for start, end in _arrows(pipeline):
        (x, y), (to_x, to_y) = places[start.name], places[end.name]
        x, y, to_y = x + WIDTH, y + HEIGHT // 2, to_y + HEIGHT // 2
        parts.append(f'<path d="M{x} {y}C{x + ACROSS // 2} {y} {to_x - ACROSS // 2} {to_y} {to_x} {to_y}"/>')
    for node in pipeline.nodes:
        x, y = places[node.name]
        fill, middle = FILL.get(node.kind, "#f7f0e4"), x + WIDTH // 2
        parts.append(
            f'<g><title>{escape(node.description or node.name)}</title><rect x="{x}" y="{y}" width="{WIDTH}" '
            f'height="{HEIGHT}" rx="6" fill="{fill}"/><text x="{middle}" y="{y + 20}" text-anchor="middle">'
            f'{escape(_short(node.name, 26))}</text><text class="what" x="{middle}" y="{y + 36}" '
            f'text-anchor="middle">{escape(_short(describe(node), 34))}</text></g>'
        )
    return "".join(parts) + "</svg>\n"


def describe(node: Node) -> str:
    """What a node is, in a few words."""
    if node.operation is None:
        return f"{node.kind_in_words} of {type(getattr(node.source, 'reads', None)).__name__.lower()}"
    return " ".join(filter(None, (node.operation.type, node.operation.family)))


def _arrows(pipeline: Nodes) -> list[tuple[Node, Node]]:
    """Each input of each node once; a self-join has one."""
    return [
        (start, node)
        for node in pipeline.nodes
        if node.operation is not None
        for start in dict.fromkeys(node.operation.inputs.values())
    ]


def _columns(nodes: Sequence[Node]) -> list[list[Node]]:
    inputs = {node.name: [*node.operation.inputs.values()] if node.operation is not None else [] for node in nodes}
    at: dict[str, int] = {}
    for node in nodes:
        at[node.name] = 1 + max((at[one.name] for one in inputs[node.name]), default=-1)
    columns = [[node for node in nodes if at[node.name] == x] for x in range(max(at.values(), default=-1) + 1)]
    height: dict[str, float] = {}
    for column in columns:
        heights = {node.name: [height[one.name] for one in inputs[node.name]] for node in column}
        middle = {name: sum(found) / len(found) if found else 0.0 for name, found in heights.items()}
        column.sort(key=lambda node: middle[node.name])
        height |= {node.name: float(y) for y, node in enumerate(column)}
    return columns


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
