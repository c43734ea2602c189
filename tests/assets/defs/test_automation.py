"""Nodes follow their inputs: conditions of real nodes, evaluated by Dagster over runs whose steps do nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from rivermeet.assets.defs.automation import WHOLE, on_new_epoch_sensor
from rivermeet.assets.defs.keys import changelog_key, keys_of, op_name
from rivermeet.assets.defs.node_assets import node_assets
from rivermeet.pipelines import Files, JoinWindow, Node, Pipeline

_FILES = Files("none/*.csv", "csv", {"id": "STRING", "n": "STRING", "at": "BIGINT"})
_OPTIONS: dict[str, Any] = {"key": ["id"], "value": ["n"], "timestamp": "at"}
SHOP = Pipeline("shop")
orders = SHOP.stream("orders", _FILES, **_OPTIONS)
payments = SHOP.stream("payments", _FILES, **_OPTIONS)
customers = SHOP.global_table("customers", _FILES, **_OPTIONS)
settled = orders.left_join(payments, "settled", window=JoinWindow(0, "1d"), select={"paid": "right.n"})
latest = settled.to_table("latest")
named = settled.left_join(customers, "named", key="paid", select={"who": "right.n"})

BLOCKING = "dense_offsets"
NOON = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)


@dataclass
class Shop:
    """Its nodes with steps that only say which epoch there is, and the evaluations so far."""

    instance: dg.DagsterInstance
    epochs: dict[str, int] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    now: datetime = NOON
    _last: Any = None

    def __post_init__(self) -> None:
        self.steps = [self._step(node) for node in SHOP.stored]
        self.definitions = dg.Definitions(self.steps, sensors=[on_new_epoch_sensor(SHOP)])

    def _step(self, node: Node) -> dg.AssetsDefinition:
        real = node_assets(node)

        @dg.multi_asset(name=op_name(node), specs=list(real.specs), check_specs=list(real.check_specs), can_subset=True)
        def step() -> Iterator[Any]:
            for key in keys_of(node):
                yield dg.MaterializeResult(key, data_version=dg.DataVersion(str(self.epochs.get(node.name, 0))))
            for spec in real.check_specs:
                good = node.name not in self.broken or spec.name != BLOCKING
                yield dg.AssetCheckResult(asset_key=spec.asset_key, check_name=spec.name, passed=good)

        return step

    def run(self, *nodes: Node, new: bool = True) -> None:
        """A run of some nodes, whose inputs had news unless it is said otherwise."""
        for node in nodes:
            self.epochs[node.name] = self.epochs.get(node.name, 0) + new
        keys = [key for node in nodes for key in keys_of(node)]
        # A blocking check that fails ends a run, and everything is recorded before it does.
        tags = {WHOLE: SHOP.name} if nodes == SHOP.stored else {}
        dg.materialize(self.steps, selection=keys, instance=self.instance, raise_on_error=False, tags=tags)

    def start(self, *nodes: Node) -> dg.DagsterRun:
        """A run of some nodes that goes on until it is ended."""
        keys = {key for node in nodes for key in keys_of(node)}
        job = self.definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection=keys)
        return self.instance.create_run_for_job(job, asset_selection=keys, status=dg.DagsterRunStatus.STARTED)

    def asked(self, minutes: int = 0) -> set[str]:
        """What is asked for now, or so many minutes later: names of assets."""
        self.now += timedelta(minutes=minutes, seconds=1)
        cursor = self._last.cursor if self._last else None
        self._last = dg.evaluate_automation_conditions(
            self.definitions, self.instance, cursor=cursor, evaluation_time=self.now
        )
        return {key.path[-1] for node in SHOP.stored for key in keys_of(node) if self._last.get_num_requested(key)}


@pytest.fixture
def shop() -> Iterator[Shop]:
    """All nodes have run once, and what is asked for has been looked at once."""
    with dg.DagsterInstance.ephemeral() as instance:
        shop = Shop(instance)
        shop.run(*SHOP.stored)
        assert shop.asked() == set()
        yield shop


def test_a_new_epoch_asks_for_all_that_stands_below(shop: Shop) -> None:
    shop.run(orders)
    assert shop.asked() == {"settled_changelog", "latest_changelog", "latest_table", "named_changelog"}
    assert shop.asked() == set()


def test_only_what_stands_below(shop: Shop) -> None:
    shop.run(customers)
    assert shop.asked() == {"named_changelog"}


def test_the_same_epoch_again_is_no_news(shop: Shop) -> None:
    shop.run(orders, payments, customers, new=False)
    assert shop.asked() == set()


def test_a_run_of_the_whole_pipeline_leaves_nothing_to_do(shop: Shop) -> None:
    shop.run(*SHOP.stored)
    assert shop.asked() == set()


def test_sources_look_for_files_every_15_minutes_alone(shop: Shop) -> None:
    looked = {"orders_changelog", "payments_changelog", "customers_changelog", "customers_table"}
    assert shop.asked(minutes=15) == looked
    assert shop.asked(minutes=1) == set()
    assert shop.asked(minutes=15) == looked


def test_nothing_is_asked_for_while_it_runs_and_nothing_is_lost(shop: Shop) -> None:
    going = shop.start(settled)
    shop.run(orders)
    assert shop.asked() == set()
    # It ends later than the news came, and has not read it.
    shop.instance.report_run_canceled(going)
    assert shop.asked() == {"settled_changelog", "latest_changelog", "latest_table", "named_changelog"}


def test_an_epoch_that_a_node_may_have_missed_is_asked_for(shop: Shop) -> None:
    shop.run(orders)
    shop.run(settled)
    # Dagster knows no more than that two runs wrote the two.
    assert "settled_changelog" in shop.asked()


def test_nothing_is_asked_for_while_an_input_is_written(shop: Shop) -> None:
    going = shop.start(payments)
    shop.run(orders)
    assert shop.asked() == set()
    shop.instance.report_run_canceled(going)
    assert "settled_changelog" in shop.asked()


def test_a_blocking_check_that_failed_holds_back_what_stands_below(shop: Shop) -> None:
    shop.broken.add("orders")
    shop.run(orders)
    assert shop.asked() == set()
    shop.broken.clear()
    shop.run(orders)
    assert "settled_changelog" in shop.asked()


def test_a_table_is_never_asked_for_without_its_changelog(shop: Shop) -> None:
    seen: list[set[str]] = []
    for nodes in ((latest,), (settled,), (orders, settled), (customers,)):
        shop.run(*nodes)
        seen += [shop.asked(), shop.asked(minutes=15)]
    tables = {"latest", "customers"}
    assert all((f"{name}_changelog" in asked) == (f"{name}_table" in asked) for asked in seen for name in tables)
    assert any("latest_table" in asked for asked in seen)


def test_conditions_have_names() -> None:
    def named(node: Node) -> Mapping[str, str | None]:
        specs = {spec.key.path[-1]: spec.automation_condition for spec in node_assets(node).specs}
        return {name: condition.get_label() for name, condition in specs.items() if condition}

    assert named(orders) == {"orders_changelog": "look_for_files"}
    assert named(latest) == {"latest_changelog": "on_new_epoch", "latest_table": "with_its_changelog"}
    assert changelog_key(latest).path == ["shop", "latest_changelog"]
