"""Rows of a table that are no records: kept with their reason, and read again by a corrected declaration."""

from __future__ import annotations

import json

import pytest

from rivermeet.infra.sources.source_step import TooManyBadRowsError
from rivermeet.pipelines import DeltaTable, Pipeline, Stream
from rivermeet.pipelines.reads.delta import TableChanges
from tests.infra.sources.delta.shed import Shed


def orders(kind: TableChanges, type: str = "TINYINT", share: float = 0.5) -> Stream:
    source = DeltaTable("orders", changes=kind, schema={"id": "STRING", "n": type})
    value = {"n": "n"}
    return Pipeline("shop").stream("orders", source, key=["id"], value=value, partitions=1, max_bad_share=share)


@pytest.mark.parametrize("kind", ["append", "feed"])
def test_a_row_that_does_not_fit(shed: Shed, kind: TableChanges) -> None:
    shed.put(("a", 1), ("b", 1000), fed=True)
    shed.put((None, 3), ("d", 4))
    node = orders(kind)
    shed.run(node)
    assert shed.said(node) == [("a", 1), ("d", 4)]
    letters = [(x["line"], json.loads(x["text"]), x["reason"]) for x in shed.letters(node)]
    assert letters == [
        (0, {"id": "b", "n": 1000}, "column 'n': '1000' is not TINYINT"),
        (1, {"n": 3}, "key column 'id' is null"),
    ]
    shed.table().optimize.compact()
    shed.vacuum()
    shed.run(node)
    corrected = orders(kind, "INT")
    result = shed.run(corrected, retry=True)
    assert result is not None and result.plan.retries == (1,)
    assert shed.said(corrected) == [("a", 1), ("d", 4), ("b", 1000)]
    assert shed.step(corrected).open_letters().count == 1
    shed.put(("e", 5))
    shed.run(corrected)
    assert shed.said(corrected)[-1] == ("e", 5), "and goes on where it was"


def test_too_many_of_them(shed: Shed) -> None:
    shed.put(("a", 1), ("b", 1000))
    node = orders("append", share=0.1)
    with pytest.raises(TooManyBadRowsError, match=r"1 of 2 rows in table .*version 0: .*1000.*is not TINYINT"):
        shed.run(node)
    assert shed.world.rows(node) == []
