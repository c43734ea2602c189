"""Types as they are declared: words in upper case, names as written, and what cannot be stored refused."""

from __future__ import annotations

import re

import pytest

from rivermeet.pipelines import DeclarationError, Files, Pipeline, expr
from rivermeet.pipelines.types import has_map, normalize_type
from tests.reliability import handled


@pytest.mark.parametrize(
    ("given", "type"),
    [
        ("int", "INT"),
        ("decimal( 10, 2 )", "DECIMAL( 10, 2 )"),
        ("struct<cityName: string, zip int>", "STRUCT<cityName: STRING, zip INT>"),
        ("array<struct<`Straße Nr`: int, größe: map<string, date>>>",
         "ARRAY<STRUCT<`Straße Nr`: INT, größe: MAP<STRING, DATE>>>"),
        ("struct<`a``b:c>d`: struct<int: int not null comment 'x > y'>>",
         "STRUCT<`a``b:c>d`: STRUCT<int: INT not null comment 'x > y'>>"),
        ("Struct<>", "STRUCT<>"),
        ("timestamp_ntz", "TIMESTAMP_NTZ"),
    ],
)  # fmt: skip
def test_names_are_as_written(given: str, type: str) -> None:
    assert normalize_type(given) == type
    assert expr("x", given).type == type


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("variant", "type VARIANT in 'variant': readers of Delta other than Spark"),
        ("array<interval day to second>", "type INTERVAL in"),
        ("struct<a: string collate UTF8_LCASE>", "type STRING COLLATE in"),
        ("time", "type TIME in"),
        ("txt", "'txt' is no Spark SQL type: 'TXT' was not expected there"),
        ("array<int", "'array<int' is no Spark SQL type: it ends too early"),
        ("int int", "'int' was not expected there"),
        ("", "'' is no Spark SQL type: it ends too early"),
    ],
)
def test_what_is_no_type_is_refused_when_declared(given: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"^.*{re.escape(says)}"):
        expr("x", given)
    with pytest.raises(DeclarationError, match=f"^pipeline 'p', node 's': column 'n': .*{re.escape(says)}"):
        Pipeline("p").stream("s", Files("*", "json", {"id": "STRING", "n": given}), key=["id"], timestamp="at")
    handled(
        "types",
        "a column declared VARIANT, INTERVAL, TIME or with a collation",
        "refused when declared, with what to declare instead",
    )


def test_a_map_is_no_key() -> None:
    assert has_map("ARRAY<STRUCT<a: MAP<INT, INT>>>") and not has_map("STRUCT<map: INT>")
    files = Files("*", "json", {"id": "STRUCT<of: MAP<STRING, INT>>", "at": "BIGINT"})
    says = r"key column 'id' is STRUCT<of: MAP<STRING, INT>>, and a MAP is no key: .*sort_array\(map_entries"
    with pytest.raises(DeclarationError, match=says):
        Pipeline("p").table("s", files, key=["id"], timestamp="at")
    handled("types", "a MAP in a key", "refused when declared: two with the same entries may be unequal")
