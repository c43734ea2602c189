"""A pipeline over a database as it is run from the command line and in Dagster: progress, status, check, cures."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rivermeet.assets.cli.main import main
from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.cli.sources import inspect_sources, retry_letters
from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.source_checks import judge_source
from rivermeet.assets.epoch.explain import explain
from rivermeet.assets.epoch.idle import idle_run
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.infra.postgres.refusals import NotRepeatableError
from rivermeet.infra.settings import Settings
from rivermeet.infra.sources.postgres.ingest import PostgresStep
from rivermeet.infra.sources.standing import Unread
from rivermeet.pipelines import Files, Node, Pipeline
from tests.assets.home import Home, homed
from tests.infra.sources.postgres.base import Base

pytestmark = pytest.mark.slow


def shop(base: Base) -> Pipeline:
    made = Pipeline("shop")
    orders = made.table("orders", base.table("orders", {"id": "INT", "who": "INT"}), max_bad_share=0.5)
    people = made.table("people", base.table("people", {"id": "INT", "name": "STRING"}))
    orders.left_join(people, "named", foreign_key="who", select={"name": "right.name"})
    return made


def changed(home: Home, node: Node) -> Unread | None:
    step = home.project.source_step(node)
    assert isinstance(step, PostgresStep)
    return step.find_changed()


def metadata(home: Home, node: str) -> dict[str, Any]:
    """Of the newest materialisation of the changelog."""
    event = home.instance.get_latest_materialization_event(changelog_key(home.pipeline.node(node)))
    assert event is not None and event.asset_materialization is not None
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def rows(home: Home, base: Base) -> list[tuple[Any, ...]]:
    from rivermeet.infra.delta.io import read

    path = home.project.context(home.pipeline).paths(home.pipeline.node("named")).table
    return sorted(tuple(row) for row in read(base.world.spark, path).select("id", "name").collect())


def test_a_pipeline_over_a_database(
    base: Base, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.do("CREATE TABLE orders (id int PRIMARY KEY, who int)", "CREATE TABLE people (id int PRIMARY KEY, name text)")
    base.do("INSERT INTO people VALUES (1, 'Ann'), (2, 'Bob')", "INSERT INTO orders VALUES (10, 1), (11, 2), (12, 3)")
    dsn = f"{base.server.dsn} password=s3cret"
    with homed(shop(base), tmp_path / "home", settings, postgres=dsn) as home:
        said = "\n".join(one.line for one in inspect_sources(home.project, home.pipeline))
        assert f"orders: table '{base.name}.public.orders' can be read; not read yet" in said
        assert f"  write    a snapshot of table '{base.name}.public.orders'" in list(
            explain(home.project, home.pipeline)
        )
        assert home.run()
        assert rows(home, base) == [(10, "Ann"), (11, "Bob"), (12, None)]
        assert idle_run(home.project, home.pipeline) is True, "nothing new, and no engine was asked"
        base.transaction("UPDATE people SET name = 'Amy' WHERE id = 1", "UPDATE orders SET who = 1", "TRUNCATE people")
        base.do("INSERT INTO people VALUES (1, 'Zoe')")
        time.sleep(0.1)
        people, now = home.pipeline.node("people"), time.time() * 1000
        unread = changed(home, people)
        assert unread is not None and unread.unit == "bytes" and unread.amount > 0
        assert unread.since is not None and now - 60_000 < unread.since < now
        assert judge_source(home.project, people).passed
        status = status_table(home.project, home.pipeline)
        assert f"orders: table '{base.name}.public.orders', read up to 0/" in status and " s behind; slot " in status
        assert home.run()
        assert rows(home, base) == [(10, "Zoe"), (11, "Zoe"), (12, "Zoe")]
        found = metadata(home, "orders")
        assert found["wal_bytes_in"] > 0 and "files" not in found
        assert found["input_positions"]["wal"] == metadata(home, "people")["input_positions"]["wal"] | {
            name: found["input_positions"]["wal"][name] for name in ("table", "relation", "published", "known")
        }
        path, _ = write_report(home.project, [home.pipeline])
        page = Path(path).read_text()
        assert f"<caption>Table {base.name}.public.orders, as its newest epoch has read it" in page
        assert retry_letters(home.project, home.pipeline.node("people")) == "people: no dead letters to retry"

        assert changed(home, people) == Unread(0, "bytes", None)

        base.drop_slots()
        stale = judge_source(home.project, people)
        assert not stale.passed and "`rivermeet resnapshot shop people`" in str(stale.description)
        base.do("INSERT INTO people VALUES (2, 'Cy')", "UPDATE orders SET who = 2 WHERE id = 12")
        assert not home.run()
        assert "`rivermeet resnapshot shop orders`" in "\n".join(home.said)
        run = partial(CliRunner().invoke, main, obj=home.project)
        bad = run(["check", "shop"])
        assert bad.exit_code == 1 and "is gone, and with it the changes since" in bad.output
        assert run(["resnapshot", "shop", "named"]).output.startswith("Error: 'shop.named' reads no table")
        done = run(["resnapshot", "shop"])
        assert done.exit_code == 0, done.output
        assert rows(home, base) == [(10, "Zoe"), (11, "Zoe"), (12, "Cy")]
        good = run(["check", "shop"])
        assert good.exit_code == 0 and "holds back" in good.output and "all of it" in good.output
        base.do("DELETE FROM people WHERE id = 1")
        assert home.run()
        assert rows(home, base) == [(10, None), (11, None), (12, "Cy")]
        everything = "\n".join(home.said) + status + bad.output + good.output + repr(found)
        assert "s3cret" not in everything and "127.0.0.1" not in everything


def test_dead_letters_and_files(base: Base, settings: Settings, tmp_path: Path) -> None:
    base.do("CREATE TABLE orders (id int PRIMARY KEY, who text)", "INSERT INTO orders VALUES (1, 'x'), (2, '2')")
    made = Pipeline("shop")
    made.table("orders", base.table("orders", {"id": "INT", "who": "INT"}), max_bad_share=0.5)
    made.stream("files", Files("*.csv", "csv", {"id": "INT", "n": "INT"}), key=["id"], timestamp="n")
    with homed(made, tmp_path / "home", settings, postgres=base.server.dsn) as home:
        assert home.run()
        with pytest.raises(NotRepeatableError, match="resnapshot shop orders"):
            retry_letters(home.project, made.node("orders"))
        assert [one.line.split(":")[0] for one in inspect_sources(home.project, made)] == ["orders"]
