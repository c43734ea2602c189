"""A family from outside is declared, registered, and then treated as any other: nobody tests for its class."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.defs.keys import changelog_key
from rivermeet.assets.defs.lineage import column_lineage, described
from rivermeet.assets.epoch.explain import explain
from rivermeet.assets.epoch.verify import verify
from rivermeet.assets.refused.decisions import UndecidableError, loss
from rivermeet.assets.reports.quality_report import write_report
from rivermeet.infra.delta.io import read
from rivermeet.infra.settings import Settings
from tests.assets.home import Home, homed
from tests.toy_family import declared, registered

TOY = declared()
BOTH = TOY.node("both")


def test_lineage_and_graph_say_what_it_is_made_of() -> None:
    found = column_lineage(BOTH)
    assert found is not None
    (dep,) = found.deps_by_column["value.tagged"]
    assert (dep.asset_key, dep.column_name) == (changelog_key(TOY.node("one")), "value.v")
    assert described(BOTH.operation) == "Tagged of stream `one` and stream `two`, each with its side."  # pyright: ignore


def test_what_a_dropped_epoch_loses_is_its_own_to_say() -> None:
    with pytest.raises(UndecidableError, match="one without a tag is missed"):
        loss(BOTH)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Iterator[Home]:
    with registered(), homed(TOY, tmp_path_factory.mktemp("toy"), settings) as found:
        yield found


def deliver(home: Home, name: str, *lines: str) -> None:
    folder = home.data / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{len(list(folder.iterdir()))}.csv").write_text("k,v,at\n" + "".join(f"{line}\n" for line in lines))


@pytest.mark.slow
def test_it_is_planned_run_checked_and_shown(home: Home) -> None:
    deliver(home, "one", "a,x,1", "b,z,5")
    deliver(home, "two", "a,y,3")
    assert home.run(), home.said
    deliver(home, "two", "c,w,7")
    assert home.run(), home.said
    assert any(line.startswith("  both") and "epoch 2: 1 rows; " in line for line in home.said), home.said

    context = home.platform.runner(TOY)
    rows = read(home.platform.session(), context.paths(BOTH).changelog).orderBy("offset")
    found = [(row.key.k, row.value.tagged, row.trigger.side, row.epoch) for row in rows.collect()]
    assert found == [
        ("a", "left: x", "left", 1),
        ("a", "right: y", "right", 1),
        ("b", "left: z", "left", 1),
        ("c", "right: w", "right", 2),
    ]
    verified = verify(context, BOTH)
    assert verified is not None and (verified.rows, verified.differing) == (4, 0)

    status = next(line for line in status_table(home.platform, TOY).splitlines() if line.startswith("both"))
    assert status.split()[1:4] == ["stream", "2", "4"] and status.endswith("passed")
    page, _ = write_report(home.platform, [TOY])
    text = page.read_text("utf-8")
    assert "both" in text and "Tagged of stream one and stream two" in text
    deliver(home, "one", "d,q,9")
    assert "  plan     after one, whose new records come on top" in [*explain(home.platform, TOY)]
