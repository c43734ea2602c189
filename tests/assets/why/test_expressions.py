"""Columns are looked up; what is more than a column is unknown without the engine."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rivermeet.assets.why.records import Expressions
from rivermeet.joins.why.evidence import Unknown

RECORD = pa.table({"tail": ["N1"], "odd name": ["x"], "none": [None], "_timestamp": [5]})


@pytest.mark.parametrize(
    ("sql", "given"),
    [
        ("tail", "N1"),
        (" TAIL ", "N1"),
        ("`odd name`", "x"),
        ("none", None),
        ("_timestamp", 5),
        ("upper(tail)", Unknown("upper(tail)")),
        ("tail2", Unknown("tail2")),
    ],
)
def test_a_column_is_looked_up(sql: str, given: object) -> None:
    assert Expressions(None).of({"k": sql}, RECORD) == [{"k": given}]


def test_spark_evaluates_the_rest_where_it_may(spark) -> None:
    asked, records = Expressions(lambda: spark), RECORD.drop("none")
    assert asked.of({"k": "upper(concat(tail, 'b'))", "j": "tail"}, records) == [{"k": "N1B", "j": "N1"}]
    assert asked.of({"k": "nullif(tail, 'N1')"}, pa.concat_tables([records, records])) == [{"k": None}] * 2
