"""Planted output topics of joins of tables: what is missing, extra and stale is found by key and cause, and no more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rivermeet.assets.shadow.words import lines
from rivermeet.infra.settings import Settings
from rivermeet.pipelines import Node
from tests.assets.shadow.shop import Row, Sent, Shop, found
from tests.infra.sources.kafka.town import Town

pytestmark = pytest.mark.slow

SENT: Sequence[Sent] = [
    ("customers", "c1", {"eur": 1}, 1),
    ("customers", "c2", {"eur": 2}, 2),
    ("orders", "o1", {"customer": "c1", "n": 10}, 10),
    ("orders", "o2", {"customer": "c1", "n": 20}, 11),
    ("orders", "o3", {"customer": "c2", "n": 30}, 12),
    ("orders", "o4", {"customer": "c9", "n": 40}, 13),
    ("orders", "o5", {"customer": "c2", "n": 50}, 14),
    ("orders", "o6", {"customer": "c2", "n": 60}, 15),
    ("orders", "o7", {"customer": "c2", "n": 70}, 16),
    # The known fault: an order is updated while its customer's tombstone is on its way.
    ("orders", "o1", {"customer": "c1", "n": 11}, 20),
    ("customers", "c1", None, 21),
    ("orders", "o3", {"customer": "c2", "n": 31}, 22),
    ("orders", "o7", None, 23),
]
RIGHT: Sequence[Row] = [
    ("o1", {"n": 10, "eur": 1}, 10),
    ("o2", {"n": 20, "eur": 1}, 11),
    ("o3", {"n": 30, "eur": 2}, 12),
    ("o5", {"n": 50, "eur": 2}, 14),
    ("o6", {"n": 60, "eur": 2}, 15),
    ("o7", {"n": 70, "eur": 2}, 16),
    ("o1", {"n": 11, "eur": 1}, 20),
    ("o1", None, 21),
    ("o2", None, 21),
    ("o3", {"n": 31, "eur": 2}, 22),
    ("o7", None, 23),
]
"""What the sequential answer is: that of an application that reads one record after the other."""
WRONG: Sequence[Row] = [
    # o2 had a tombstone too many, and its rows in another order: no difference.
    ("o2", None, 11),
    ("o2", {"n": 20, "eur": 1}, 11),
    ("o2", None, 21),
    ("o1", {"n": 10, "eur": 1}, 10),
    ("o3", {"n": 30, "eur": 2}, 12),
    ("o4", {"n": 40, "eur": 9}, 13),
    ("o6", {"n": 61, "eur": 2}, 15),
    ("o7", {"n": 70, "eur": 2}, 16),
    ("o8", {"n": 80, "eur": 2}, 17),
]
FOUND = {
    ("o1",): ("extra", "stale_foreign_key"),
    ("o3",): ("stale", "stale_left"),
    ("o4",): ("extra", "unknown_value"),
    ("o5",): ("missing", "lost_row"),
    ("o6",): ("other", "unknown_value"),
    ("o7",): ("extra", "stale_left"),
    ("o8",): ("extra", "unknown_value"),
}


def named(shop: Shop) -> Node:
    """Orders with what their customers pay."""
    orders = shop.pipeline.table("orders", shop.reads("orders", customer="STRING", n="INT"))
    customers = shop.pipeline.table("customers", shop.reads("customers", eur="INT"))
    select = {"n": "left.n", "eur": "right.eur"}
    return orders.join(customers, "named", foreign_key="customer", select=select)


def test_a_foreign_key_join(town: Town, settings: Settings) -> None:
    shop = Shop(town, settings)
    node = named(shop)
    shop.send(SENT)
    shop.run()
    right = shop.audit(node, shop.writes("right", RIGHT))
    assert (right.holds, right.profile, right.keys, right.equal, right.otherwise) == (True, "kafka-4", 6, 6, 0)
    assert found(right) == {}

    wrong = shop.audit(node, shop.writes("wrong", WRONG))
    assert found(wrong) == FOUND
    assert (wrong.losses, wrong.explained, wrong.keys, wrong.equal, wrong.otherwise) == (7, 0, 8, 1, 1)
    orders, customers = town.named("orders"), town.named("customers")
    said = "\n".join(lines(wrong))
    assert f"left: topic '{orders}' up to offsets 0: 10" in said
    assert "nobody knows how far the application has read" in said
    assert (
        '{"id":"o1"}\n'
        f"      ours: no value @21, caused by {customers}/0@2\n"
        f'      theirs: {wrong.shadow.topic}/0@3 {{"n":10,"eur":1}} @10\n'
        f'      left: joined {orders}/0@0 {{"customer":"c1","n":10}} @10, '
        f'now {orders}/0@7 {{"customer":"c1","n":11}} @20\n'
        f'      right: joined {customers}/0@0 {{"eur":1}} @1, now {customers}/0@2 no value @21\n'
    ) in said
