"""A source without news, and news below it: it confirms its last epoch, also one that another home made and judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rivermeet.assets.quality.quality_table import last_states
from rivermeet.infra.settings import Settings
from tests.infra.delta.odd_names import NAME, NUMBER, OWNER, PRICE, TOWN, Shop

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]


def test_the_epoch_of_another_home_is_judged_where_it_is_confirmed(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Shop.below(tmp_path / "one", settings), Shop.below(tmp_path / "other", settings)
    shared = one.project.settings
    own = replace(other.project.settings, tables=shared.tables, data=shared.data)
    other.project = replace(other.project, settings=own)
    owners = one.node("owners")

    def deliver_order(number: str) -> None:
        one.deliver("orders", number, (NUMBER, OWNER, PRICE, "at"), (number, "ann", 3, 25))

    def run(shop: Shop) -> None:
        monkeypatch.setenv("DAGSTER_HOME", str(shop.project.settings.dagster_home))
        assert shop.run(), shop.said

    one.deliver("owners", "1", (NAME, TOWN, "at"), ("ann", "York", 20))
    deliver_order("o1")
    run(one)
    assert last_states(other.project.quality, owners) == {}

    deliver_order("o2")
    run(other)
    judged = last_states(other.project.quality, owners, 1)
    assert judged and {state for state, *_ in judged.values()} == {"passed"}

    # An epoch that this home has judged, and a newer one that it has not.
    one.deliver("owners", "2", (NAME, TOWN, "at"), ("bob", "Bath", 30))
    run(one)
    deliver_order("o3")
    run(other)
    judged = last_states(other.project.quality, owners)
    assert judged == last_states(other.project.quality, owners, 2)
    assert {state for state, *_ in judged.values()} == {"passed"}
