"""A kind of source from outside is declared, read, judged, shown and refused as any other: nobody asks for its kind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.cli.sources import retry_letters, run_accepting_loss
from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.source_checks import judge_source, source_checks
from rivermeet.assets.epoch.explain import explain
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.assets.why.changelogs import Changelog
from rivermeet.infra.delta.io import read
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.kind import register
from rivermeet.pipelines import DeclarationError, Pipeline
from tests.assets.home import Home, homed
from tests.toy_source import KIND, Feed

PROJECT = Path(__file__).parents[1]


def declared(folder: Path) -> Pipeline:
    made = Pipeline("news", freshness="10m")
    texts = made.table("texts", Feed(str(folder)), max_bad_share=0.5)
    texts.filter("n >= 5", name="long")
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    register(KIND)
    folder = tmp_path_factory.mktemp("feed")
    with homed(declared(folder), tmp_path_factory.mktemp("home"), settings) as found:
        yield found


def publish(home: Home, *texts: str) -> None:
    folder = feed(home)
    first = max((int(path.stem) for path in folder.iterdir()), default=0) + 1
    for number, text in enumerate(texts, first):
        (folder / f"{number}.txt").write_text(text)


def feed(home: Home) -> Path:
    source = home.pipeline.node("texts").source
    assert source is not None and isinstance(source.reads, Feed)
    return Path(source.reads.folder)


def test_it_says_what_it_needs() -> None:
    with pytest.raises(DeclarationError, match="key column 'title' is 'title', which is no column of the source"):
        Pipeline("other").table("texts", Feed("/feed"), key=["title"])


@pytest.mark.slow
def test_it_is_planned_read_judged_and_shown(home: Home) -> None:
    node = home.pipeline.node("texts")
    publish(home, "a 1", "b 7", "c many")
    assert "  write    texts 1 to 3 of a feed" in list(explain(home.project, home.pipeline))
    assert home.run(), home.said
    assert any(line.startswith("  texts") and "epoch 1: 2 rows, 1 dead letter; " in line for line in home.said), (
        home.said
    )
    context = home.project.context(home.pipeline)
    rows = read(home.project.sessions.open(), context.paths(home.pipeline.node("long")).changelog)
    assert [(row.key.name, row.value.n) for row in rows.where("value IS NOT NULL").collect()] == [("b", 7)]
    (letter,) = read(home.project.sessions.open(), context.paths(node).dead_letter).collect()
    assert (letter.line, letter.reason) == (3, "column 'n': 'many' is not INT")
    assert retry_letters(home.project, node) == "texts: no dead letters to retry", "it cannot read them again"

    event = home.instance.get_latest_materialization_event(changelog_key(node))
    assert event is not None and event.asset_materialization is not None
    found = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    assert (found["texts_in"], found["input_positions"]) == (3, {"feed": {"first": 1, "last": 3, "gone": None}})

    publish(home, "d 2")
    status = status_table(home.project, home.pipeline)
    assert f"texts: feed '{feed(home)}': read up to text 3" in status
    assert [line.split()[:6] for line in status.splitlines() if line.startswith("texts ")] == [
        ["texts", "table", "1", "2", "1", "1"]
    ], status
    assert {spec.name for one in source_checks(home.pipeline) for spec in one.check_specs} == {"feed_is_fresh"}
    check = judge_source(home.project, node)
    assert (check.passed, check.description) == (False, "1 texts behind.")
    assert (
        "<caption>Feed, as its newest epoch has read it"
        in Path(write_report(home.project, [home.pipeline])[0]).read_text()
    )

    changelog = Changelog(home.project, node)
    (row,) = changelog.of_key({"name": "a"})
    assert changelog.origin_of(row).says == f"text 1 of feed '{feed(home)}'"
    assert changelog.origin_of({**row, "origin": None}).says == "one of texts 1 to 3 of a feed"


@pytest.mark.slow
def test_it_is_refused_and_goes_on_without_what_is_lost(home: Home) -> None:
    publish(home, "e 3", "f 4")
    assert home.run(), home.said
    publish(home, "g 5", "h 6")
    last = max(int(path.stem) for path in feed(home).iterdir())
    for path in feed(home).iterdir():
        if int(path.stem) < last:
            path.unlink()
    assert not home.run()
    refusal = f"source 'news.texts': texts {last - 1} to {last - 1} are gone; accept-loss goes on"
    assert refusal in "\n".join(home.said)
    assert f"texts: {refusal}" not in status_table(home.project, home.pipeline), "it is not asked for what it refuses"
    assert run_accepting_loss(home.project, home.pipeline.node("texts")) == (
        f"texts: 1 record read of texts {last} to {last} of a feed; lost: texts {last - 1} to {last - 1}"
    )

    publish(home, "i no", "j no", "k 9")
    assert not home.run(), "more bad rows than the source allows"
    assert "2 of 3 rows in texts" in "\n".join(home.said) and "text " in "\n".join(home.said)


def test_it_is_found_by_its_entry_point(tmp_path: Path) -> None:
    installed = tmp_path / "feed_source-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: feed-source\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[rivermeet.sources]\nfeed = tests.toy_source:KIND\n")
    program = """
from rivermeet.infra.epochs.plan import EpochPlan

plan = EpochPlan.model_validate({
    "pipeline": "news", "node": "texts", "incarnation": 1, "epoch": 1, "reads": {"feed": {"first": 1, "last": 3}}
})
print(plan.reads.description)

from rivermeet.infra.source_kinds import kind_of
from rivermeet.pipelines import Pipeline
from tests.toy_source import Feed

print(kind_of(Pipeline("news").table("texts", Feed("/feed"))).name)
"""
    path = os.pathsep.join([str(tmp_path), str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["texts 1 to 3 of a feed", "feed"]
