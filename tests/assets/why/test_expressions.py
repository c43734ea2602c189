"""Columns are looked up; what is more than a column is unknown without the engine."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rivermeet.assets.why.expressions import Expressions
from rivermeet.joins.why.evidence import Unknown

RECORD = pa.table({"tail": ["N1"], "odd name": ["x"], "none": [None], "_timestamp": [5]})


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("tail", {"k": "N1"}),
        (" TAIL ", {"k": "N1"}),
        ("`odd name`", {"k": "x"}),
        ("none", None),
        ("_timestamp", {"k": 5}),
        ("upper(tail)", Unknown("upper(tail)")),
        ("tail2", Unknown("tail2")),
    ],
)
def test_a_column_is_looked_up(sql: str, key: object) -> None:
    assert Expressions(None).key({"k": sql}, RECORD) == key


def test_spark_evaluates_the_rest_where_it_may(spark) -> None:
    asked = Expressions(lambda: spark)
    assert asked.key({"k": "upper(concat(tail, 'b'))", "j": "tail"}, RECORD.drop("none")) == {"k": "N1B", "j": "N1"}
    assert asked.key({"k": "nullif(tail, 'N1')"}, RECORD.drop("none")) is None
