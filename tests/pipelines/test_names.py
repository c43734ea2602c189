"""Columns whose names are one to Spark are refused when they are declared."""

from __future__ import annotations

import pytest

from rivermeet.pipelines import DeclarationError, DeltaTable, Files, Pipeline, Postgres, expr
from tests.reliability import handled

ALIKE = [("id", "ID"), ("Straße", "STRAßE"), ("k", "\u212a"), ("Ünder", "ünder")]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_columns_that_differ_in_case_alone_are_refused(one: str, other: str) -> None:
    schema = {one: "STRING", other: "STRING", "at": "BIGINT"}
    says = f"has columns '{one}' and '{other}', one name to Spark; leave one out, or name it otherwise"
    with pytest.raises(ValueError, match=says):
        Files("*.csv", "csv", schema)
    with pytest.raises(ValueError, match=says):
        DeltaTable("lake/t", "append", schema)
    with pytest.raises(ValueError, match=says):
        Postgres("shop.public.t", schema, key="at")
    files = Files("*.csv", "csv", {"a": "STRING", "at": "BIGINT"})
    with pytest.raises(DeclarationError, match=f"^pipeline 'p', node 's': its result {says}"):
        Pipeline("p").stream("s", files, key={one: "a"}, value={other: expr("a", "STRING")}, timestamp="at")
    handled("files", "two declared columns that differ in case alone", "refused when they are declared")


def test_names_of_other_letters_are_two() -> None:
    Files("*.csv", "csv", {"Straße": "STRING", "STRASSE": "STRING", "a": "STRING", "ä": "STRING"})
