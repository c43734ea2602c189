"""The shop's invoices through Dagster, delivery by delivery, as `rivermeet run invoice` does it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rivermeet.assets.cli.show.status import status_table
from rivermeet.assets.defs.keys import changelog_key, keys_of, table_key
from rivermeet.assets.defs.metadata import map_checks
from rivermeet.assets.demo.feeds import feed
from rivermeet.infra.delta.io import last_note, read
from rivermeet.infra.settings import Settings
from rivermeet.pipelines.invoice import PIPELINE
from tests.assets.home import Home, homed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NODES = [node.name for node in PIPELINE.nodes]
INES = ("Ines Moreau", "4 Quai Vert, Ghent")
MOVED = ("Ines Moreau", "7 Rue du Lac, Namur")
TOMAS = ("Tomas Berg", "19 Hill Road, Leith")
UNKNOWN = (None, None)

# Epoch, purchase, (product, price), quantity, (customer, address).
INVOICES = [
    (1, "P-1001", "Bowl", 34.5, 2, *INES),
    (1, "P-1003", "House sign", 58.0, 1, *TOMAS),
    (2, "P-1004", "Bowl", 36.0, 1, *INES),
    (2, "P-1005", "Wall clock", 120.0, 1, *TOMAS),
    (3, "P-1007", "Wall clock", 120.0, 1, *MOVED),
]
CHECKED = [
    (1, "P-1001", "Bowl", 34.5, 2, *INES),
    (1, "P-1002", *UNKNOWN, 1, *TOMAS),
    (1, "P-1003", "House sign", 58.0, 1, *TOMAS),
    (2, "P-1004", "Bowl", 36.0, 1, *INES),
    (2, "P-1005", "Wall clock", 120.0, 1, *TOMAS),
    (2, "P-1006", "House sign", 58.0, 1, *UNKNOWN),
    (3, "P-1007", "Wall clock", 120.0, 1, *MOVED),
    (3, "P-1008", *UNKNOWN, 3, *TOMAS),
]


@dataclass
class Shop:
    """The pipeline in its home, and what its tables hold."""

    home: Home

    @property
    def data(self) -> Path:
        return self.home.data / "invoice"

    def run(self) -> tuple[bool, list[str]]:
        green = self.home.run()
        return green, list(self.home.said)

    def epochs(self) -> dict[str, int | None]:
        runner = self.home.project.context(PIPELINE)
        found = {node.name: last_note(runner.paths(node).changelog) for node in PIPELINE.nodes}
        return {name: note[1].epoch if note else None for name, note in found.items()}

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        path = self.home.project.paths(PIPELINE.node(name)).changelog
        found = last_note(path)
        assert found is not None
        frame = read(self.home.project.sessions.open(), path, found[0])
        columns = ["epoch", "key.*", "value.product", "value.price", "value.quantity"]
        rows = frame.select(*columns, "value.customer", "value.address").collect()
        return sorted((tuple(row) for row in rows), key=lambda row: row[:2])

    def write(self, source: str, text: str) -> Path:
        path = self.data / source
        path.write_text(text)
        return path


@pytest.fixture(scope="module")
def shop(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with homed(PIPELINE, tmp_path_factory.mktemp("shop"), settings) as home:
        yield Shop(home)


@pytest.fixture(scope="module")
def delivered(shop: Shop) -> Shop:
    """All three deliveries, a run after each."""
    for step in (1, 2, 3):
        feed("invoice", shop.data.parent, step)
        green, said = shop.run()
        assert green, said
    return shop


def test_the_rows_of_three_deliveries(delivered: Shop) -> None:
    assert delivered.rows("invoices") == INVOICES
    assert delivered.rows("checked_purchases") == CHECKED


def test_news_of_some_inputs_reaches_the_joins_below(delivered: Shop) -> None:
    # The second delivery brought no customers, and its invoices are still there.
    assert delivered.epochs() == dict.fromkeys(NODES, 3) | {"customers": 2}


def test_every_asset_and_check_is_in_the_history(delivered: Shop) -> None:
    invoices = PIPELINE.node("invoices")
    event = delivered.home.instance.get_latest_materialization_event(changelog_key(invoices))
    assert event is not None and event.asset_materialization is not None
    metadata: dict[str, Any] = {name: entry.value for name, entry in event.asset_materialization.metadata.items()}
    counted = ("epoch", "rows_in_left", "rows_in_right", "rows_out", "tombstones", "dagster/row_count")
    # priced_purchases: P-1007 alone, for P-1008 asks for a withdrawn product; customers: the one who moved.
    assert {name: metadata[name] for name in counted} == {
        "epoch": 3,
        "rows_in_left": 1,
        "rows_in_right": 1,
        "rows_out": 1,
        "tombstones": 0,
        "dagster/row_count": 5,
    }
    assert metadata["dagster/uri"].endswith("tables/invoice/invoices/changelog")
    assert metadata["written"] == "staged"
    lineage = metadata["dagster/column_lineage"].deps_by_column
    (price,) = lineage["value.price"]
    assert (price.asset_key, price.column_name) == (changelog_key(PIPELINE.node("priced_purchases")), "value.price")
    (address,) = lineage["value.address"]
    assert (address.asset_key, address.column_name) == (table_key(PIPELINE.node("customers")), "address")
    described = {column.name: column.description for column in metadata["dagster/column_schema"].columns}
    assert described["value.price"] == "`left.price`"
    products = delivered.home.instance.get_latest_materialization_event(table_key(PIPELINE.node("products")))
    assert products is not None and products.asset_materialization is not None
    # Bowl and clock are left; the sign was withdrawn.
    assert products.asset_materialization.metadata["dagster/row_count"].value == 2


def test_status_knows_all_of_it(delivered: Shop) -> None:
    title, *_ = status_table(delivered.home.project, PIPELINE).splitlines()
    assert re.fullmatch(r"invoice \(checks judged: \d+ by DuckDB\)", title)
    lines = status_table(delivered.home.project, PIPELINE).splitlines()[3:]
    cells = {line.split()[0]: line.split()[1:] for line in lines}
    # Kind, epoch, rows, lag, late (of what is computed), dead, checks.
    assert cells["products"] == ["global_table", "3", "5", "0", "0", "6", "passed"]
    assert cells["invoices"] == ["stream", "3", "5", "0", "0", "0", "10", "passed"]


def test_nothing_new_is_green_and_writes_no_epoch(delivered: Shop) -> None:
    before, made = delivered.epochs(), materialised(delivered.home)
    green, said = delivered.run()
    assert green
    # Nothing is fresher for it; but every check says what it said of the epoch that stands.
    assert materialised(delivered.home) == made
    run = delivered.home.instance.get_runs(limit=1)[0].run_id
    keys = [dg.AssetCheckKey(key, id) for node in PIPELINE.nodes for id, key in map_checks(node).items()]
    latest = delivered.home.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    assert latest.keys() == set(keys)
    assert {(record.run_id, record.status.value) for record in latest.values()} == {(run, "SUCCEEDED")}
    assert {line.split()[0] for line in said} == {node.name for node in PIPELINE.stored}
    assert all(line.endswith("nothing new") for line in said)
    assert delivered.epochs() == before


def materialised(home: Home) -> dict[dg.AssetKey, int]:
    """The newest materialisation of every asset."""
    records = home.instance.get_asset_records([key for node in PIPELINE.nodes for key in keys_of(node)])
    events = [(r.asset_entry.asset_key, r.asset_entry.last_materialization_record) for r in records]
    return {key: event.storage_id for key, event in events if event is not None}


def test_checks_can_run_alone_all_or_one(delivered: Shop) -> None:
    before = delivered.epochs()
    invoices = PIPELINE.node("invoices")
    one = dg.AssetCheckKey(changelog_key(invoices), "record_shape")
    for selection in (dg.AssetSelection.checks(one), dg.AssetSelection.checks_for_assets(changelog_key(invoices))):
        result = delivered.home.checks_alone(selection)
        assert result.success
        judged = result.get_asset_check_evaluations()
        # One pass judges all of a node, whichever was asked for.
        assert {check.check_name for check in judged} == {
            *("dense_changelog", "dense_offsets", "record_shape", "one_row_per_cause"),
            *("rows_come_from_facts", "stream_row_has_value", "row_of_every_record", "loaded_first"),
            *("processing_order", "late_share"),
        }
        assert all(check.passed for check in judged)
        assert result.get_asset_materialization_events() == []
    assert delivered.epochs() == before


def test_a_file_without_records_fails_by_name_until_it_is_taken_away(delivered: Shop) -> None:
    before = delivered.epochs()
    bad = delivered.write("purchases/2024-05-04.jsonl", "this is no JSON\n")
    try:
        green, said = delivered.run()
        assert not green
        failed = [line for line in said if line.lstrip().startswith("FAILED")]
        assert len(failed) == 1, said
        assert failed[0].startswith("  FAILED invoice__purchases: source 'invoice.purchases': 1 of 1 row")
        assert f'{bad}, line 1: "this is no JSON" (' in failed[0] and "\n" not in failed[0]
        project = delivered.home.project
        rejected = project.paths(PIPELINE.node("purchases")).rejected
        metadata = f"purchases: epoch 4 was refused: 1 bad row, with file, line and reason, in {rejected}"
        assert status_table(project, PIPELINE).endswith(metadata)
        assert delivered.epochs() == before
    finally:
        bad.unlink()
    green, said = delivered.run()
    assert green, said
    assert delivered.epochs() == before


@pytest.mark.prove
def test_a_file_that_changed_fails_by_name_until_it_is_restored(delivered: Shop) -> None:
    path = delivered.data / "customers" / "2024-05-01.jsonl"
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(content + content)
    try:
        green, said = delivered.run()
        assert not green
        failed = [line for line in said if line.lstrip().startswith("FAILED")]
        assert any("invoice__customers" in line for line in failed), said
        assert all(f": file {path} changed after it was consumed" in line for line in failed)
        assert all("\n" not in line for line in failed)
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    green, said = delivered.run()
    assert green, said


@pytest.mark.prove
def test_one_new_purchase_alone_is_billed(delivered: Shop) -> None:
    purchase = {"purchase_id": "P-1009", "account_id": "ines", "product_id": "bowl", "quantity": 4}
    line = json.dumps(purchase | {"at": "2024-05-05T09:00:00Z"})
    delivered.write("purchases/2024-05-05.jsonl", line + "\n")
    green, said = delivered.run()
    assert green, said
    assert delivered.rows("invoices") == [*INVOICES, (4, "P-1009", "Bowl", 36.0, 4, *MOVED)]
    epochs = delivered.epochs()
    assert (epochs["products"], epochs["customers"]) == (3, 2)
