"""The toys of tests as another package has them: a family, a kind of source, a format and a rule, by entry points."""

from __future__ import annotations

from pathlib import Path

from rivermeet.infra.settings import PROJECT

MODULES = ("toy_family", "toy_format", "toy_source")
FACTS = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "toys"
version = "1.0"

[tool.setuptools]
packages = ["toys"]

[project.entry-points]
"rivermeet.families" = { tagged = "toys.toy_family:FAMILY" }
"rivermeet.sources" = { feed = "toys.toy_source:KIND" }
"rivermeet.formats" = { pairs = "toys.toy_format:FORMAT" }
"rivermeet.rules" = { house = "toys.toy_format:RULES" }
"""
PIPELINE = """
from pathlib import Path

from rivermeet import Kafka, Pipeline, Stream
from toys.toy_family import Tagged
from toys.toy_format import Pairs
from toys.toy_source import Feed

PIPELINE = Pipeline("news")
texts = PIPELINE.stream("texts", Feed(str(Path(__file__).parents[1] / "feed")), partitions=1)
one = texts.map_values({"v": "concat('text ', n)"}, "one")
pairs = Kafka("pairs", value=Pairs({"name": "STRING", "v": "STRING"}))
two = PIPELINE.stream("two", pairs, key=["name"], value=["v"], partitions=1, max_bad_share=0.5)
both = PIPELINE.add(
    Stream(
        pipeline=PIPELINE,
        name="both",
        key=one.key,
        value=("tagged",),
        partitions=1,
        origin=Tagged(left=one, right=two),
    )
)
"""


def write_distribution(folder: Path) -> Path:
    """Their project, to be installed; nothing of it imports our tests."""
    (folder / "toys").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(FACTS)
    (folder / "toys" / "__init__.py").touch()
    for module in MODULES:
        source = (PROJECT / "tests" / f"{module}.py").read_text("utf-8")
        (folder / "toys" / f"{module}.py").write_text(source.replace("tests.toy_", "toys.toy_"), "utf-8")
    return folder
