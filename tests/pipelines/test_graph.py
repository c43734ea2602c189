"""The picture of a pipeline: Mermaid's text, SVG that is well formed, and what a notebook shows."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from click.testing import CliRunner

from rivermeet.assets.cli.main import main
from rivermeet.assets.project import demo_project
from rivermeet.pipelines import Files, JoinWindow, Pipeline
from rivermeet.pipelines.graph import mermaid, svg

FILES = Files("none", "csv", {"k": "STRING", "v": "STRING", "ts": "BIGINT"})


def till() -> Pipeline:
    pipeline = Pipeline("till")
    orders, paid = (
        pipeline.stream(name, FILES, key=["k"], value={name[0]: "v"}, timestamp="ts", description="<b> & more")
        for name in ("orders", "payments")
    )
    settled = orders.left_join(paid, "settled", window=JoinWindow(0, 5))
    settled.join(settled, "end", window=JoinWindow(0, 5), select={"both": "left.o"})
    return pipeline


def test_mermaid() -> None:
    assert mermaid(till()).splitlines() == [
        "graph LR",
        '  n_orders[("orders<br/>stream of files")]',
        '  n_payments[("payments<br/>stream of files")]',
        '  n_settled["settled<br/>left stream-stream"]',
        '  n_end["end<br/>inner stream-stream"]',
        "  n_orders --> n_settled",
        "  n_payments --> n_settled",
        "  n_settled --> n_end",
    ]


def test_svg_has_a_box_for_each_node_and_an_arrow_for_each_input() -> None:
    for pipeline in (till(), demo_project().pipeline("flights"), demo_project().pipeline("invoice"), Pipeline("empty")):
        picture = ElementTree.fromstring(svg(pipeline))
        names = {"s": "http://www.w3.org/2000/svg"}
        boxes = picture.findall(".//s:rect", names)
        inputs = sum(len(set(node.operation.inputs.values())) for node in pipeline.nodes if node.operation is not None)
        assert len(boxes) == len(pipeline.nodes) and len(picture.findall(".//s:path", names)) == inputs
        corners = {(box.get("x"), box.get("y")) for box in boxes}
        assert len(corners) == len(boxes), "no box lies on another"
        _, _, width, height = map(int, (picture.get("viewBox") or "").split())
        assert all(int(box.get("x", 0)) + 190 < width and int(box.get("y", 0)) + 46 < height for box in boxes)


def test_inputs_stand_left_of_what_is_made_of_them() -> None:
    picture = svg(demo_project().pipeline("flights"))
    box = r'<text x="(\d+)" y="\d+" text-anchor="middle">([^<]*)</text>'
    at = {name: int(x) for x, name in re.findall(box, picture)}
    for node in demo_project().pipeline("flights").nodes:
        if node.operation is not None:
            assert all(at[one.name[:25]] < at[node.name[:25]] for one in node.operation.inputs.values()), node.name


def test_a_notebook_shows_the_picture() -> None:
    shown = till()._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg") and shown["text/plain"].startswith("graph LR")


def test_the_command(tmp_path: Path) -> None:
    said = CliRunner().invoke(main, ["graph", "invoice"])
    assert said.output == mermaid(demo_project().pipeline("invoice"))
    CliRunner().invoke(main, ["graph", "invoice", "-o", str(tmp_path / "invoice.svg")])
    assert (tmp_path / "invoice.svg").read_text() == svg(demo_project().pipeline("invoice"))
