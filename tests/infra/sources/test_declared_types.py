"""What is written, as the type that is declared: exactly, by the text alone, from every format by one rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.sources.declared_types import as_declared
from rivermeet.infra.sources.files.discovery import discover
from rivermeet.infra.sources.files.reading import read
from rivermeet.infra.sources.places import LINE_COLUMNS
from rivermeet.infra.sources.row_to_record import SourceFrames
from rivermeet.pipelines import DeclarationError, Files, Pipeline, Source, expr
from tests.reliability import handled

pytestmark = pytest.mark.both_engines

DEAD = "a dead letter with its reason"
TEXTS: dict[str, dict[str, str | None]] = {
    "DECIMAL(10,2)": {
        "9.50": "9.50", "9.5000": "9.50", "150e-2": "1.50", "1E+2": "100.00", " -.5 ": "-0.50", "5.": "5.00",
        "0e-9": "0.00", "1200e-4": "0.12", "9.505": None, "1e-3": None, "1e-400": None, "123456789.00": None,
        "NaN": None, "٣": None, "1e99999999999": None,
    },
    "DECIMAL(10,0)": {"1": "1", "1.0": "1", "1.4": None, "1.5": None, ".5": None},
    "BIGINT": {
        "9007199254740993": "9007199254740993", "1.0": "1", "1e3": "1000", "15e-1": None, "1.5": None,
        "9223372036854775808": None, "9223372036854775807.0": "9223372036854775807", "0x10": None, "1_000": None,
    },
    "INT": {"+5": "5", "2e9": "2000000000", "3e9": None, "1.000": "1", "10000000001e-1": None, "": None},
    "DOUBLE": {
        "0.1": "0.1", "1e308": "1.0E308", "inf": "Infinity", "1e400": None, "1.7976931348623159e308": None,
        "1e-400": None, "0e5": "0.0", "1d": None, "1f": None, "1,5": None,
    },
    "FLOAT": {"0.5": "0.5", "1e39": None, "1e-60": None},
    "BOOLEAN": {"true": "true", "F": "false", "yes": "true", "0": "false", "1": "true", "2": None, "ja": None},
    "DATE": {
        "2026-01-05": "2026-01-05", "2026-1-5": "2026-01-05", "2026-01-05 00:00:00": "2026-01-05",
        "2026-01-05T00:00": "2026-01-05", "2026-01-05 garbage": None, "2026-01-05 10:00:00": None, "2026": None,
        "2026-01": None, "2026-01-05T": None, "2026-01-05T00:00:00Z": None, "2026-02-30": None, "26-01-05": None,
        "20260105": None, "today": None, "epoch": None, "0044-03-15 BC": None,
    },
    "TIMESTAMP": {
        "2026-01-05": "2026-01-05 00:00:00", "2026-01-05 10:05": "2026-01-05 10:05:00",
        "2026-01-05T10:05:06.1234567": None, "2026-01-05T10:05:06.123456000": "2026-01-05 10:05:06.123456",
        "2026-01-05T10:00:00Z": "2026-01-05 10:00:00", "2026-01-05 10:00:00+01:00": "2026-01-05 09:00:00",
        "2026-01-05 10:00:00 +0100": "2026-01-05 09:00:00", "2026-01-05 10:00:00 UTC+2": "2026-01-05 08:00:00",
        "2026-07-05 10:00:00 Europe/Berlin": "2026-07-05 08:00:00", "2026-01-05 10:00:00 CST": None, "10:05:00": None,
        "T10:05": None, "10:05": None, "T10:05:00Z": None, "2026": None, "2026-01": None, "now": None,
        "tomorrow": None, "2026-01-05 10:05:60": None, "2026-01-05 24:00:00": None, "2026-01-05 10:00:00+18:30": None,
        "2026-01-05 garbage": None, "1767603600": None, "2026-01-05 10:00:00 AM": None,
    },
    "TIMESTAMP_NTZ": {
        "2026-01-05 10:05": "2026-01-05 10:05:00", "2026-01-05 10:00:00Z": None, "2026-01-05 10:00:00+01:00": None,
        "10:05": None, "2026-01-05 10:00:00.1234567": None,
    },
}  # fmt: skip
TEN = datetime(2026, 1, 5, 10)
VALUES: list[tuple[str, str, list[tuple[Any, str | None]]]] = [
    ("DOUBLE", "DECIMAL(10,2)", [(9.5, "9.50"), (9.51, "9.51"), (9.505, None), (1e9, None)]),
    ("DOUBLE", "BIGINT", [(3.0, "3"), (1.5, None), (2.0**63, None), (-(2.0**63), str(-(2**63))), (float("nan"), None)]),
    ("DOUBLE", "FLOAT", [(0.1, "0.1"), (1e39, None), (float("inf"), "Infinity")]),
    ("DECIMAL(6,3)", "DECIMAL(10,2)", [(Decimal("9.500"), "9.50"), (Decimal("9.505"), None)]),
    ("DECIMAL(6,3)", "INT", [(Decimal("9.000"), "9"), (Decimal("9.500"), None)]),
    ("BIGINT", "INT", [(5, "5"), (3_000_000_000, None)]),
    ("BIGINT", "DOUBLE", [(2**53 + 1, "9.007199254740992E15")]),
    ("BIGINT", "BOOLEAN", [(0, "false"), (1, "true"), (2, None)]),
    ("BIGINT", "TIMESTAMP", [(1_767_603_600, None)]),
    ("TIMESTAMP", "BIGINT", [(TEN, None)]),
    ("TIMESTAMP", "TIMESTAMP_NTZ", [(TEN, None)]),
    ("TIMESTAMP_NTZ", "DATE", [(datetime(2026, 1, 5), "2026-01-05"), (TEN, None)]),
    ("TIMESTAMP_NTZ", "TIMESTAMP", [(TEN, "2026-01-05 10:00:00")]),
    ("BINARY", "STRING", [(b"a", "a"), (b"\xff", None)]),
    ("ARRAY<STRING>", "ARRAY<DECIMAL(10,2)>", [(["1.5", None], "[1.50, null]"), (["1", "9.505"], None), ([], "[]")]),
    # Spark's cast goes by place: b would be in a.
    (
        "STRUCT<b: STRING, a: STRING>",
        "STRUCT<a: INT, b: DATE>",
        [(("2026-01-05", "1"), "{1, 2026-01-05}"), (("2026", "1"), None)],
    ),
    (
        "MAP<STRING, STRING>",
        "MAP<INT, INT>",
        [({"1": "1.0"}, "{1 -> 1}"), ({"1": "1.5"}, None), ({"1": "1", "01": "2"}, None), ({"x": "1"}, None)],
    ),
]


def shown(value: Any) -> Any:
    return value.replace(tzinfo=None).isoformat(" ") if isinstance(value, datetime) else value


def declared(spark: SparkSession, cases: list[tuple[str, str, list[Any]]]) -> list[list[tuple[str | None, str | None]]]:
    """Of each case's values the text of what they are as the declared type, and the problem."""
    line = [F.lit(None).cast("STRING").alias(name) for name in LINE_COLUMNS if name != "row"]
    frames: list[DataFrame] = []
    for case, (given, kind, values) in enumerate(cases):
        rows = spark.createDataFrame(list(enumerate(values)), f"at INT, given {given}")
        raw = F.struct(F.col("given").alias("r0")).alias("raw")
        frame = rows.select(*line, F.col("at").alias("row"), raw, F.lit(None).cast("string").alias("malformed"))
        value = F.when(F.isnull("malformed"), F.col("typed.t0").cast("string"))
        made = as_declared(frame, {"c": kind}).select(F.lit(case).alias("case"), "row", value.alias("v"), "malformed")
        frames.append(made)
    found = reduce(DataFrame.unionAll, frames).orderBy("case", "row").collect()
    return [[(row.v, row.malformed) for row in found if row.case == case] for case in range(len(cases))]


def test_texts_are_read_exactly_or_not_at_all(spark: SparkSession) -> None:
    found = declared(spark, [("STRING", kind, list(texts)) for kind, texts in TEXTS.items()])
    for (kind, texts), of_kind in zip(TEXTS.items(), found, strict=True):
        assert dict(zip(texts, [value for value, _ in of_kind], strict=True)) == texts, kind
        bad = {text: f"column 'c': '{text}' is not {kind}" for text, value in texts.items() if value is None}
        assert {text: why for text, (_, why) in zip(texts, of_kind, strict=True) if why} == bad
    handled("files", "a time without a date (10:05), a date with more behind it, a year for a DATE or TIMESTAMP", DEAD)
    handled("files", "9.505 for DECIMAL(10,2), 1.4 for DECIMAL(10,0), 1.5 for INT", f"{DEAD}: nothing is rounded")
    handled("files", "1.0 or 1e3 for a BIGINT, 150e-2 for a DECIMAL", "the number, because it is exact")
    handled("files", "1e400 or 1e-400 for a DOUBLE, 1d, digits of other scripts", DEAD)
    handled("files", "a nanosecond in a text, :60, 24:00, an offset of +18:30, CST, now, tomorrow", DEAD)


def test_values_of_other_types_fit_exactly_or_not_at_all(spark: SparkSession) -> None:
    found = declared(spark, [(given, kind, [raw for raw, _ in values]) for given, kind, values in VALUES])
    for (given, kind, values), of_kind in zip(VALUES, found, strict=True):
        assert [value for value, _ in of_kind] == [value for _, value in values], (given, kind)
        assert [why is not None for _, why in of_kind] == [value is None for _, value in values], (given, kind)
    assert found[-3][1][1] == "column 'c': '[1, 9.505]' is not ARRAY<DECIMAL(10,2)>"
    handled("files", "a Parquet DOUBLE or DECIMAL declared with fewer digits, BIGINT as INT", "exact, or a dead letter")
    handled("files", "a Parquet number declared TIMESTAMP, or a time declared BIGINT", f"{DEAD}: the unit is unknown")
    handled("files", "a STRUCT whose fields are in another order than declared", "each by its name")
    handled("files", "such a value inside an ARRAY, MAP or STRUCT", DEAD)


def source(format: Any, schema: Mapping[str, str], **options: Any) -> Source:
    given: dict[str, Any] = {"key": ["id"], "timestamp": "at", "not_before": None} | options
    made = Pipeline("p").stream("s", Files("*", format, schema), **given).source
    assert made is not None
    return made


def load(spark: SparkSession, root: Path, what: Source) -> SourceFrames:
    return read(spark, what, 4, discover(what.files, str(root), lambda: spark))


def values(frames: SourceFrames) -> list[tuple[Any, ...]]:
    return [(row.key.id, *row.value) for row in frames.records.orderBy("sequence").collect()]


def test_numbers_of_json_are_what_is_written(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        '{"id": "a", "at": 1, "d": 12345678901234567890.12, "s": 0.10, "n": 9007199254740993, '
        '"o": {"x": 1.50, "y": "1.5"}}',
        '{"id": "b", "at": 1, "d": 9.505}',
        '{"id": "c", "at": 1, "s": "say \\"1.0\\" \\\\", "n": 1e3, "l": [1, 2.50], "o": "{\\"x\\": 1.50}"}',
        '{"id": "d", "at": 1, "n": 1.5}',
        '{"id": "e", "at": 1, "l": [9.505]}',
        '{"id": "f", "at": 1, "n": 007}',
        '{"id": "g", "at": 1, "s": -1e-7, "n": -0}',
        '{"id": "h", "at": 1, "s": "\\ufdd01.5"}',
    ]
    (tmp_path / "1.json").write_text("".join(f"{line}\n" for line in lines))
    schema = {
        "id": "STRING", "d": "DECIMAL(30,2)", "s": "STRING", "n": "BIGINT", "l": "ARRAY<DECIMAL(10,2)>", "o": "STRING",
        "at": "BIGINT",
    }  # fmt: skip
    frames = load(spark, tmp_path, source("json", schema, value=["d", "s", "n", "l", "o"]))
    assert values(frames) == [
        ("a", Decimal("12345678901234567890.12"), "0.10", 9007199254740993, None, '{"x":1.50,"y":"1.5"}'),
        ("c", None, 'say "1.0" \\', 1000, [Decimal("1.00"), Decimal("2.50")], '{"x": 1.50}'),
        ("g", None, "-1e-7", 0, None, None),
    ]
    assert {json.loads(row.text.replace("007", "7"))["id"]: row.reason for row in frames.dead.collect()} == {
        "b": "column 'd': '9.505' is not DECIMAL(30,2)",
        "d": "column 'n': '1.5' is not BIGINT",
        "e": "column 'l': '[9.505]' is not ARRAY<DECIMAL(10,2)>",
        "f": "the line is not one JSON object with fields of the declared types",
        "h": "the line is not one JSON object with fields of the declared types",
    }
    handled("files", "JSON numbers of more digits than a double has, declared STRING, BIGINT or DECIMAL", "every digit")


ZONED = [
    ("a", "2026-01-05 10:00:00", "2026-01-05T09:00:00"),
    ("b", "2026-01-05T10:00:00Z", "2026-01-05T10:00:00"),
    ("c", "2026-01-05T10:00:00+05:00", "2026-01-05T05:00:00"),
    ("gap", "2026-03-29 02:30:00", "2026-03-29T01:30:00"),
    ("first", "2026-10-25 02:30:00", "2026-10-25T00:30:00"),
    ("second", "2026-10-25T02:30:00+01:00", "2026-10-25T01:30:00"),
]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_zone_is_for_texts_without_an_offset(spark: SparkSession, tmp_path: Path, format: str) -> None:
    if format == "csv":
        text = "id,at,tz\n" + "".join(f"{id},{at},Europe/Berlin\n" for id, at, _ in ZONED)
    else:
        text = "".join(json.dumps({"id": id, "at": at, "tz": "Europe/Berlin"}) + "\n" for id, at, _ in ZONED)
    (tmp_path / f"1.{format}").write_text(text)
    schema = {"id": "STRING", "at": "TIMESTAMP", "tz": "STRING"}
    expected = [(id, round(datetime.fromisoformat(f"{utc}+00:00").timestamp() * 1000)) for id, _, utc in ZONED]

    def times(**options: Any) -> tuple[list[tuple[Any, ...]], list[str]]:
        frames = load(spark, tmp_path, source(format, schema, **options))
        rows = frames.records.orderBy("sequence").collect()
        return [(row.key.id, row.timestamp) for row in rows], [row.reason for row in frames.dead.collect()]

    assert times(time_zone="Europe/Berlin") == (expected, [])
    if format == "json":
        return
    assert times(time_zone=expr("tz", "STRING")) == (expected, [])
    assert times(time_zone="Europe/Berlin", timestamp="`AT`") == (expected, [])
    # An expression sees clocks of the zone; of an hour that comes twice, it cannot say which.
    doubtful = (
        "no event time: 'greatest(at, at)' is a clock time that comes twice, of a value with an offset; give the "
        "column alone, or leave out time_zone"
    )
    assert times(time_zone="Europe/Berlin", timestamp="greatest(at, at)") == (expected[:-1], [doubtful])
    days = [datetime.fromisoformat(f"{day}T00:00:00+01:00") for day in ("2026-01-05",) * 3 + ("2026-03-29",)]
    found, _ = times(time_zone="Europe/Berlin", timestamp="date_trunc('DAY', at)")
    assert [at for _, at in found[:4]] == [round(day.timestamp() * 1000) for day in days]
    assert times(time_zone="Europe/Berlin", timestamp="unix_millis(at)")[0][1] == expected[1]
    handled("files", "texts with and without an offset under time_zone=, hours that are skipped or come twice",
            "the offset counts where there is one, the zone where there is none")  # fmt: skip


@pytest.mark.parametrize("value", ["at", expr("`AT`", "TIMESTAMP")])
def test_keys_and_values_are_the_instants_that_event_time_is(spark: SparkSession, tmp_path: Path, value: Any) -> None:
    rows = "".join(f"{id},{at},Europe/Berlin\n" for id, at, _ in ZONED)
    (tmp_path / "1.csv").write_text(f"id,at,tz\n{rows}none,,Europe/Berlin\nmars,2026-01-05 10:00:00,Mars\n")
    schema = {"id": "STRING", "at": "TIMESTAMP", "tz": "STRING"}
    expected = [(id, utc.replace("T", " ")) for id, _, utc in ZONED]
    for zone in ("Europe/Berlin", expr("tz", "STRING")):
        declared = source("csv", schema, time_zone=zone, timestamp="1", value={"v": value})
        keys = source("csv", schema, time_zone=zone, timestamp="1", value=["tz"], key={"v": value, "id": "id"})
        frames = load(spark, tmp_path, declared)
        found = [(row.key.id, row.value.v) for row in frames.records.orderBy("sequence").collect()]
        assert [(id, shown(at)) for id, at in found if id != "mars"] == [*expected, ("none", None)]
        of_keys = load(spark, tmp_path, keys)
        found = [(row.key.id, shown(row.key.v)) for row in of_keys.records.orderBy("sequence").collect()]
        assert [row for row in found if row[0] != "mars"] == expected
        if zone != "Europe/Berlin":
            reason = "column 'v' has a time without an offset, and its time_zone is none"
            assert [row.reason for row in frames.dead.collect()] == [f"value {reason}"]
            assert {row.reason for row in of_keys.dead.collect()} == {"key column 'v' is null", f"key {reason}"}
    handled("files", "TIMESTAMP columns without an offset among keys and values, under time_zone=", "as in event time")


def test_event_time_is_an_expression_of_its_type(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,at\na,2026-01-05 10:00:00\n")
    schema = {"id": "STRING", "at": "TIMESTAMP"}
    for sql, kind, millis in (
        ("at", "TIMESTAMP", 1_767_607_200_000),
        ("to_date(at)", "DATE", 1_767_571_200_000),
        ("unix_millis(at)", "BIGINT", 1_767_607_200_000),
    ):
        frames = load(spark, tmp_path, source("csv", schema, timestamp=expr(sql, kind)))
        assert [row.timestamp for row in frames.records.collect()] == [millis]
    with pytest.raises(ValueError, match=r"^event time 'at' is TIMESTAMP, and was declared DATE; cast it$"):
        load(spark, tmp_path, source("csv", schema, timestamp=expr("at", "DATE")))
    with pytest.raises(DeclarationError, match="timestamp is an expression of type STRING; give one of TIMESTAMP, "):
        source("csv", schema, timestamp=expr("id", "STRING"))
    with pytest.raises(DeclarationError, match=r"timestamp is 5; give SQL, or expr\(SQL, TYPE\)$"):
        source("csv", schema, timestamp=5)


def test_parquet_instants_are_not_shifted(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 5, 10)
    for name, zone in (("instant", "UTC"), ("wall", None)):
        at = pa.array([moment], pa.timestamp("us", zone))
        pq.write_table(pa.table({"id": [name], "at": at}), tmp_path / f"{name}.parquet")
    schema = {"id": "STRING", "at": "TIMESTAMP"}
    frames = load(
        spark, tmp_path, source("parquet", schema, time_zone="Europe/Berlin", value={"v": expr("id", "STRING")})
    )
    found = [(row.key.id, row.timestamp) for row in frames.records.orderBy("sequence").collect()]
    ten = round(moment.replace(tzinfo=UTC).timestamp() * 1000)
    assert found == [("instant", ten), ("wall", ten - 3_600_000)]
    handled("files", "Parquet columns that are instants under time_zone=", "not shifted")


def test_nanoseconds_of_parquet_are_read_exactly_or_not_at_all(spark: SparkSession, tmp_path: Path) -> None:
    day = 1_767_607_200_000_000_000  # 2026-01-05 10:00, in nanoseconds
    at = pa.array([day + 1_000, day + 1, -1_000, None], pa.timestamp("ns"))
    seen = pa.array([day + 123_456_789, day, None, -1], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"id": list("abcd"), "at": at, "seen": seen}), tmp_path / "1.parquet", version="2.6")
    schema = {"id": "STRING", "at": "TIMESTAMP", "seen": "STRING"}
    options: dict[str, Any] = {"time_zone": "Europe/Berlin", "value": ["at", "seen"]}
    frames = load(spark, tmp_path, source("parquet", schema, timestamp="coalesce(at, DATE '2026-01-05')", **options))
    assert [(id, shown(at), seen) for id, at, seen in values(frames)] == [
        ("a", "2026-01-05 09:00:00.000001", "2026-01-05T10:00:00.123456789Z"),
        ("c", "1969-12-31 22:59:59.999999", None),
        ("d", None, "1969-12-31T23:59:59.999999999Z"),
    ]
    (letter,) = frames.dead.collect()
    assert letter.reason == "column 'at': '2026-01-05T10:00:00.000000001' is not TIMESTAMP"
    assert json.loads(letter.text) == {
        "id": "b",
        "at": "2026-01-05T10:00:00.000000001",
        "seen": "2026-01-05T10:00:00.000000000Z",
    }
    instants = {"id": "STRING", "seen": "TIMESTAMP"}
    options = {"timestamp": "seen", "where": "id = 'b'", "time_zone": "Europe/Berlin", "value": {"v": expr("1", "INT")}}
    zoned = load(spark, tmp_path, source("parquet", instants, **options))
    assert [row.timestamp for row in zoned.records.collect()] == [day // 1_000_000]
    handled(
        "files", "Parquet times in nanoseconds, as pandas writes them", "exact, or a dead letter; every digit as STRING"
    )


def test_line_breaks_in_quotes_are_kept_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(b'id,at,n\r\na,1,"x\r\ny"\r\nb,2,"x\ry"\r\nc,3,"x\ny"\r\nd,4,\r\ne,5,""\r\n')
    schema = {"id": "STRING", "at": "BIGINT", "n": "STRING"}
    frames = load(spark, tmp_path, source("csv", schema, value=["n"]))
    assert values(frames) == [("a", "x\r\ny"), ("b", "x\ry"), ("c", "x\ny"), ("d", None), ("e", None)]
    assert frames.dead.count() == 0
    handled("files", "CRLF, or CR alone, inside quotes", "kept as it is")


HIDDEN = ["_a.csv", ".a.csv", "a.csv._COPYING_"]


@pytest.mark.parametrize("name", HIDDEN)
def test_a_hidden_file_that_is_named_is_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("id,at\na,1\n")
    wild = {"_a.csv": "_*.csv", ".a.csv": ".a.*", "a.csv._COPYING_": "*._COPYING_"}[name]
    for pattern in (name, wild, f"file:{tmp_path}/{name}"):
        files = Files(pattern, "csv", {"id": "STRING", "at": "BIGINT"})
        with pytest.raises(ValueError, match=r"names hidden files: Spark reads none whose name .*under another name$"):
            discover(files, str(tmp_path), lambda: spark)
    (tmp_path / "b.csv").write_text("id,at\nb,1\n")
    assert [
        Path(state.path).name for state in discover(Files("*", "csv", {"id": "STRING"}), str(tmp_path), lambda: spark)
    ] == ["b.csv"]
    handled("files", f"a file named outright that Spark ignores ({name})", "refused, with the cure")


def test_folders_of_any_name_are_read_if_they_are_spelled_out(spark: SparkSession, tmp_path: Path) -> None:
    where = ["a=1", "_x=1", ".h", "_h", "a=1/_b", "x [1] {2}", "%41"]
    for at, folder in enumerate(where):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"_{at}=1.csv").write_text("id,at,a\nhidden,1,x\n")
        (tmp_path / folder / "f.csv").write_text(f"id,at,a\n{at},{at},own\n")
    schema = {"id": "STRING", "at": "BIGINT", "a": "STRING"}
    named = [Files(f"{folder}/f.csv", "csv", schema) for folder in where]
    states = [state for files in named for state in discover(files, str(tmp_path), lambda: spark)]
    frames = read(spark, source("csv", schema, value=["a"]), 4, states)
    # A folder a=1 adds no column, and changes none.
    assert sorted(values(frames)) == [(str(at), "own") for at in range(len(where))]
    found = discover(Files("**/*.csv", "csv", schema), str(tmp_path), lambda: spark)
    assert [Path(state.path).parent.name for state in found] == ["%41", "a=1", "x [1] {2}"]
    handled(
        "files",
        "folders a=1, _x=1, .h, with brackets and percent signs",
        "read where they are spelled out; no column is added",
    )


def test_text_that_an_expression_gives_is_read_by_the_same_rule(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,at,n,t\na,1,9.50,2026-01-05\nb,1,9.505,2026-01-05\nc,1,1,10:05\n")
    schema = {"id": "STRING", "at": "BIGINT", "n": "STRING", "t": "STRING"}
    made = {
        "n": expr("trim(n)", "DECIMAL(10,2)"),
        "t": expr("t", "TIMESTAMP"),
        "half": expr("at / 3.0", "DECIMAL(3,1)"),
    }
    frames = load(spark, tmp_path, source("csv", schema, value=made))
    assert [(id, n, shown(t), half) for id, n, t, half in values(frames)] == [
        ("a", Decimal("9.50"), "2026-01-05 00:00:00", Decimal("0.3"))
    ]
    assert sorted(row.reason for row in frames.dead.collect()) == [
        "value column 'n': '9.505' is not DECIMAL(10,2)",
        "value column 't': '10:05' is not TIMESTAMP",
    ]
