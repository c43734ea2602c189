"""Rows of files become records, dead letters, or nothing."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.sources.files.discovery import discover
from rivermeet.infra.sources.files.reading import read
from rivermeet.infra.sources.row_to_record import SourceFrames, partition_of
from rivermeet.pipelines import Expr, Files, Source, expr

SCHEMA = {"id": "STRING", "n": "INT", "at": "BIGINT"}
CSV = "id,n,at\na,1,10\nb,2,20\n"
AB = [("a", 1, 10), ("b", 2, 20)]


def source(pattern: str = "*", format: Any = "csv", schema: Any = None, **changes: Any) -> Source:
    schema = schema or SCHEMA
    files = Files(pattern, format, schema, changes.pop("null", None), changes.pop("delimiter", ","))
    base = Source(files, {"id": Expr("`id`", "STRING")}, {"n": Expr("`n`", "INT")}, "at", not_before=None)
    return replace(base, **changes)


def load(spark: SparkSession, root: Path, what: Source) -> SourceFrames:
    found = discover(what.files, str(root), lambda: spark)
    return read(spark, what, 4, found, landing=Path(mkdtemp(prefix="landing", dir=root.parent)))


def rows(frames: SourceFrames) -> list[tuple[Any, ...]]:
    """Key, value and time of records in order of arrival; a one-column struct as its column."""
    collected = frames.records.orderBy("sequence").collect()

    def plain(struct: Any) -> Any:
        return struct if struct is None else struct[0] if len(struct) == 1 else tuple(struct)

    return [(plain(r.key), plain(r.value), r.timestamp) for r in collected]


def dead(frames: SourceFrames) -> list[tuple[str, str]]:
    return sorted((r.text, r.reason) for r in frames.dead.collect())


def zipped(**members: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "."), text)
    return out.getvalue()


def parquet(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path)


def test_plain_gzip_and_zip_give_the_same(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(CSV)
    (tmp_path / "2.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    (tmp_path / "3.zip").write_bytes(zipped(b__csv="at,id,n\n20,b,2\n", a__csv="id,n,at\na,1,10\n", r__md="x"))
    assert rows(load(spark, tmp_path, source())) == AB * 3


def test_columns_are_found_by_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text('"n",extra,at,id\n1,x,10,a\n')
    (tmp_path / "2.csv").write_text("id,n,at\nb,2,20\n")
    (tmp_path / "3.csv").write_text("n,extra,at,id\n3,y,30,c\n")
    assert rows(load(spark, tmp_path, source())) == [*AB, ("c", 3, 30)]


@pytest.mark.parametrize(("header", "problem"), [("id,at", "has no column 'n'"), ("id,n,n,at", "two columns 'n'")])
def test_a_header_without_the_column_is_dead(spark: SparkSession, tmp_path: Path, header: str, problem: str) -> None:
    (tmp_path / "0.csv").write_text(CSV)
    (tmp_path / "1.csv").write_text(f"{header}\n1,2\n")
    frames = load(spark, tmp_path, source())
    assert rows(frames) == AB
    ((text, reason),) = dead(frames)
    assert text is None
    assert problem in reason


def test_json_fields_by_name(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        '{"id":"a","n":1,"at":10,"more":{}}',
        '{"at":"20","n":"2","id":"b"}',
        '{"id":"c","at":30}',
        '{"id":"d","n":1.5,"at":30}',
        '{"id":"e"',
        '{"id":"f","at":1}{"id":"g","at":2}',
        "[1]",
        "null",
    ]
    (tmp_path / "1.json").write_text("\n".join(lines))
    frames = load(spark, tmp_path, source(format="json"))
    assert rows(frames) == [*AB, ("c", None, 30)]
    shape = "the line is not one JSON object with fields of the declared types"
    assert dead(frames) == sorted([(lines[3], "column 'n': '1.5' is not INT"), *((x, shape) for x in lines[4:])])


def test_json_numbers_keep_their_digits_and_nested_types(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.json.gz").write_bytes(gzip.compress(b'{"id":"a","d":123456789.123456789123,"l":[1,2],"at":1}\n'))
    schema = {"id": "STRING", "d": "DECIMAL(38,12)", "l": "ARRAY<INT>", "at": "BIGINT"}
    value = {"d": Expr("d", "DECIMAL(38,12)"), "l": Expr("l", "ARRAY<INT>")}
    frames = load(spark, tmp_path, source(format="json", schema=schema, value=value))
    assert rows(frames) == [("a", (Decimal("123456789.123456789123"), [1, 2]), 1)]


def test_parquet_columns_by_name_and_cast(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "1.parquet", at=[10], n=pa.array([1], pa.int64()), id=["a"], more=[0])
    parquet(tmp_path / "2.parquet", id=["b", "c", None], n=[2.0, 2.5, 1.0], at=[20, 30, 40])
    parquet(tmp_path / "3.parquet", id=["d", "e"], n=["4", "x"], at=[40, 50])
    frames = load(spark, tmp_path, source(format="parquet"))
    assert rows(frames) == [*AB, ("d", 4, 40)]
    assert [
        (r.line, json.loads(r.text).get("id"), r.reason) for r in frames.dead.orderBy("file", "line").collect()
    ] == [
        (2, "c", "column 'n': '2.5' is not INT"),
        (3, None, "key column 'id' is null"),
        (2, "e", "column 'n': 'x' is not INT"),
    ]


def test_parquet_without_the_column_is_dead(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "1.parquet", id=["a"], at=[1])
    frames = load(spark, tmp_path, source(format="parquet"))
    reason = "the file has no column 'n' (it has id, at); correct the file, or the schema of the source"
    assert (rows(frames), dead(frames)) == ([], [(None, reason)])


def test_bad_rows_are_dead_with_their_reason(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,n,at\na,1,10\nb,x,20\n,3,30\nd,4,\ne,5\nf,6,60,7\ng,99999999999,70\n")
    frames = load(spark, tmp_path, source())
    assert rows(frames) == [("a", 1, 10)]
    assert dead(frames) == [
        (",3,30", "key column 'id' is null"),
        ("b,x,20", "column 'n': 'x' is not INT"),
        ("d,4,", "no event time: 'at' gave null"),
        ("e,5", "the line does not have the 3 fields of the header"),
        ("f,6,60,7", "the line does not have the 3 fields of the header"),
        ("g,99999999999,70", "column 'n': '99999999999' is not INT"),
    ]
    assert {r.file for r in frames.dead.collect()} == {str(tmp_path / "1.csv")}


def test_expressions_see_only_rows_that_parsed(spark: SparkSession, tmp_path: Path) -> None:
    # assert_true fails the query where it is evaluated on a row that a guard should have kept away.
    (tmp_path / "1.csv").write_text("id,n,at\na,1,10\nb,x,20\nc,-1,30\nd,0,40\n")
    what = source(
        where="n IS NULL AND assert_true(n IS NOT NULL) IS NULL OR n >= 0",
        tombstone="n = 0",
        value={"n": Expr("10 div n", "INT")},
        key={"id": Expr("if(n < 0, raise_error('where comes first'), id)", "STRING")},
    )
    frames = load(spark, tmp_path, what)
    assert rows(frames) == [("a", 10, 10), ("d", None, 40)]
    assert [r for _, r in dead(frames)] == ["column 'n': 'x' is not INT"]


def test_results_of_expressions_are_cast(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,n,at\n7,1,10\nb,2,20\n9,3000,30\n")
    what = source(key={"k": Expr("id", "INT")}, value={"v": Expr("n * 1", "TINYINT")})
    frames = load(spark, tmp_path, what)
    assert rows(frames) == [(7, 1, 10)]
    assert [r for _, r in dead(frames)] == [
        "value column 'v': '3000' is not TINYINT",
        "key column 'k': 'b' is not INT",
    ]


def test_null_text_and_empty_fields(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text('id,n,at\na,NA,1\nb,,2\nc,"",3\nNA,1,4\nNAN,1,5\n')
    frames = load(spark, tmp_path, source(null="NA"))
    assert rows(frames) == [("a", None, 1), ("b", None, 2), ("c", None, 3), ("NAN", 1, 5)]
    assert dead(frames) == [("NA,1,4", "key column 'id' is null")]


def test_where_tombstone_and_counts_add_up(spark: SparkSession, tmp_path: Path) -> None:
    text = "id,n,at\na,1,10\n\na,0,20\nb,-1,30\nc,,40\nd,x,50\n,1,60\n   \n"
    (tmp_path / "1.csv").write_text(text)
    frames = load(spark, tmp_path, source(where="n >= 0", tombstone="n = 0"))
    assert rows(frames) == [("a", 1, 10), ("a", None, 20)]
    one = frames.parsed.agg(
        F.count("*").alias("rows"),
        F.count_if(F.isnotnull("reason")).alias("dead"),
        F.count_if("excluded").alias("excluded"),
    ).first()
    assert one is not None
    assert (one.rows, one.dead, one.excluded) == (6, 2, 2)
    assert frames.records.count() + frames.dead.count() + one.excluded == one.rows


CLOCKS = [
    ("2013-01-15 12:00", "America/New_York", "2013-01-15T17:00:00.000"),
    ("2013-07-15 12:00", "America/New_York", "2013-07-15T16:00:00.000"),
    ("2013-03-10 01:59:59", "America/New_York", "2013-03-10T06:59:59.000"),
    ("2013-03-10 02:30", "America/New_York", "2013-03-10T07:30:00.000"),  # skipped hour: as 03:30
    ("2013-11-03 01:30", "America/New_York", "2013-11-03T05:30:00.000"),  # twice: the first
    ("2013-11-03 02:00", "America/New_York", "2013-11-03T07:00:00.000"),
    ("1969-12-31 23:59:59.9996", "UTC", "1969-12-31T23:59:59.999"),
    ("9999-12-31 00:00", "+01:00", "9999-12-30T23:00:00.000"),
    ("2013-01-01", "Pacific/Honolulu", "2013-01-01T10:00:00.000"),
]


def test_daylight_saving_and_zones(spark: SparkSession, tmp_path: Path) -> None:
    def millis(utc: str) -> int:
        return round((datetime.fromisoformat(utc) - datetime(1970, 1, 1)) / timedelta(milliseconds=1))

    lines = [f"a,1,{clock},{zone}\n" for clock, zone, _ in CLOCKS]
    (tmp_path / "1.csv").write_text("id,n,at,tz\n" + "".join(lines))
    schema = {"id": "STRING", "n": "INT", "at": "TIMESTAMP", "tz": "STRING"}
    per_row = source(schema=schema, time_zone=expr("tz", "STRING"))
    assert [r[2] for r in rows(load(spark, tmp_path, per_row))] == [millis(u) for *_, u in CLOCKS]
    new_york = [(clock, utc) for clock, zone, utc in CLOCKS if zone == "America/New_York"]
    named = source(
        schema=schema,
        where="tz = 'America/New_York'",
        time_zone="America/New_York",
        timestamp="CAST(at AS TIMESTAMP_NTZ)",
    )
    assert [r[2] for r in rows(load(spark, tmp_path, named))] == [millis(u) for _, u in new_york]


def test_kinds_of_event_time(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,n,at\na,1,86400000\nb,2,-1\n")
    for at, expected in [
        ("at", [86400000, -1]),
        ("CAST(at AS INT)", [86400000, -1]),
        ("DATE '1970-01-02'", [86400000 + 18000000] * 2),
    ]:
        frames = load(spark, tmp_path, source(timestamp=at, time_zone="America/New_York"))
        assert [r[2] for r in rows(frames)] == expected
    with pytest.raises(ValueError, match="event time 'id' is STRING; give a TIMESTAMP"):
        load(spark, tmp_path, source(timestamp="id"))


def test_an_unknown_zone_is_no_event_time(spark: SparkSession, tmp_path: Path) -> None:
    zones = ["UTC", "Mars/X", "  ", "none"]
    (tmp_path / "1.csv").write_text("id,n,at\n" + "".join(f"{z},1,2013-01-01\n" for z in zones))
    schema = {**SCHEMA, "at": "TIMESTAMP"}
    zone = expr("nullif(id, 'none')", "STRING")
    frames = load(spark, tmp_path, source(schema=schema, time_zone=zone))
    assert [r[0] for r in rows(frames)] == ["UTC"]
    assert sorted(r for _, r in dead(frames)) == [
        f"no event time: '{z}' is no time zone" for z in ("  ", "Mars/X", "NULL")
    ]
    frames = load(spark, tmp_path, source(schema=schema, time_zone="Mars/X"))
    assert frames.dead.count() == 4


@pytest.mark.parametrize("pack", ["plain", "gz", "zip"])
def test_marks_ends_and_quotes(spark: SparkSession, tmp_path: Path, pack: str) -> None:
    text = '\ufeff\r\n"id",n,at\r\n"a,1",1,10\r\n\r\n"say ""x""",2,20\r\n5" pipe,3,30\r\n\\,4,40\r\nid,5,50'
    data = text.encode()
    if pack == "plain":
        (tmp_path / "1.csv").write_bytes(data)
    elif pack == "gz":
        (tmp_path / "1.csv.gz").write_bytes(gzip.compress(data))
    else:
        (tmp_path / "1.zip").write_bytes(zipped(a__csv=text))
    ids = ["a,1", 'say "x"', '5" pipe', "\\", "id"]
    assert rows(load(spark, tmp_path, source())) == [(x, i, 10 * i) for i, x in enumerate(ids, 1)]


def test_a_row_that_equals_the_header_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id\nid\nx\nid\n")
    what = source(schema={"id": "STRING"}, value={"v": Expr("id", "STRING")}, timestamp="1")
    assert [r[0] for r in rows(load(spark, tmp_path, what))] == ["id", "x", "id"]


@pytest.mark.parametrize("pack", ["plain", "gz", "zip"])
def test_fields_with_line_breaks_and_stray_quotes(spark: SparkSession, tmp_path: Path, pack: str) -> None:
    # Read line by line, the middle line z,9,90 of the first field would be a record of its own.
    text = 'id,n,at\n"a\nz,9,90\nb, ""q""",1,10\n5" x,2,20\n"stray,3,30\nc,4,40\nd,5,50\n'
    name, data = {
        "plain": ("1.csv", text.encode()),
        "gz": ("1.csv.gz", gzip.compress(text.encode())),
        "zip": ("1.zip", zipped(a__csv=text)),
    }[pack]
    (tmp_path / name).write_bytes(data)
    (tmp_path / "2.csv").write_text("id,n,at\ne,6,60\n")
    frames = load(spark, tmp_path, source())
    assert rows(frames) == [
        ('a\nz,9,90\nb, "q"', 1, 10), ('5" x', 2, 20), ("c", 4, 40), ("d", 5, 50), ("e", 6, 60),
    ]  # fmt: skip
    found = [(r.file, r.line, r.text, r.reason) for r in frames.dead.collect()]
    shown = f"{tmp_path}/{name}" + ("!a.csv" if pack == "zip" else "")
    assert found == [(shown, 6, '"stray,3,30', "a quoted field of the line does not close")]


def test_text_that_is_not_utf8_is_dead(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(b"id,n,at\n\xff,1,10\na,1,10\n")
    frames = load(spark, tmp_path, source())
    assert rows(frames) == [("a", 1, 10)]
    assert dead(frames) == [("\ufffd,1,10", "the line is not UTF-8 text")]


def test_empty_files_and_no_files(spark: SparkSession, tmp_path: Path) -> None:
    for format in ("csv", "json", "parquet"):
        assert rows(load(spark, tmp_path, source(format=format))) == []
    (tmp_path / "1.csv").write_text("")
    assert rows(load(spark, tmp_path, source())) == []
    (tmp_path / "2.csv").write_text("id,n,at")
    (tmp_path / "3.csv.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "4.zip").write_bytes(zipped(a__csv="", b__csv="id,n,at\n"))
    assert rows(load(spark, tmp_path, source())) == []
    (tmp_path / "5.csv").write_text(CSV)
    assert rows(load(spark, tmp_path, source())) == AB


def test_a_broken_archive_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.zip").write_bytes(b"PK nonsense")
    (tmp_path / "2.csv").write_text(CSV)
    frames = load(spark, tmp_path, source())
    assert rows(frames) == AB
    ((file, reason),) = ((r.file, r.reason) for r in frames.dead.collect())
    assert (Path(file).name, reason) == ("1.zip", "the file cannot be read: File is not a zip file")


def test_odd_file_names(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / ".h [x]"
    root.mkdir()
    names = [
        "a[1].csv",
        "x'; DROP TABLE y; --.csv",
        "a b%20+ü#,.csv",
        "{e}.csv",
        "b\\s.csv",
        "q?*.csv",
    ]
    for i, name in enumerate(sorted(names)):
        (root / name).write_text(f"id,n,at\nx,{i},{i}\n{'bad'}\n")
        (root / f"{name}.zip").write_bytes(zipped(a__csv=f"id,n,at\nx,{i},{i}\n"))
        parquet(root / f"{name}.parquet", id=["x"], n=[i], at=[i])
    for pattern, format in [("*.csv", "csv"), ("*.zip", "csv"), ("*.parquet", "parquet")]:
        frames = load(spark, root, source(pattern, format))
        assert [r[1] for r in rows(frames)] == list(range(6))
    found = load(spark, root, source("*.csv")).dead.collect()
    assert sorted(r.file for r in found) == sorted(f"{root}/{name}" for name in names)


def test_odd_column_names_delimiter_and_collisions(spark: SparkSession, tmp_path: Path) -> None:
    header = ["row", "a`b", 'it\'s "q"', "p.q", "bad", "reason"]
    quoted = ";".join('"' + name.replace('"', '""') + '"' for name in header)
    (tmp_path / "1.csv").write_text(f"{quoted}\n1;2;3;4;5;6\n")
    (tmp_path / "1.json").write_text(json.dumps(dict(zip(header, range(1, 7), strict=True))))
    parquet(tmp_path / "1.parquet", **{name: [i] for i, name in enumerate(header, 1)})
    value = {name: Expr("`" + name.replace("`", "``") + "`", "INT") for name in header[1:]}
    for format in ("csv", "json", "parquet"):
        what = source(
            f"*.{format}", format, dict.fromkeys(header, "INT"),
            key={"row": Expr("row", "INT")}, value=value, timestamp="reason", delimiter=";",
        )  # fmt: skip
        frames = load(spark, tmp_path, what)
        assert rows(frames) == [(1, (2, 3, 4, 5, 6), 6)]
        assert frames.records.schema["value"].dataType.names == header[1:]  # pyright: ignore


@pytest.mark.parametrize("delimiter", ["\t", "|", "^", "-", "]", " "])
def test_delimiters(spark: SparkSession, tmp_path: Path, delimiter: str) -> None:
    (tmp_path / "1.csv").write_text(CSV.replace(",", delimiter) + f'"c{delimiter}"{delimiter}3{delimiter}30\n')
    frames = load(spark, tmp_path, source(delimiter=delimiter))
    assert rows(frames) == [*AB, (f"c{delimiter}", 3, 30)]


def test_wrong_expressions_are_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(CSV)
    with pytest.raises(ValueError, match=r"^where of the source is 'nope > 1': .*nope[^\n]*$"):
        load(spark, tmp_path, source(where="nope > 1"))
    with pytest.raises(ValueError, match=r"tombstone .* of type int; give a BOOLEAN"):
        load(spark, tmp_path, source(tombstone="n"))


def test_partitions_follow_the_key_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,n,at\n" + "".join(f"k{i % 50},{i},{i}\n" for i in range(200)))
    records = load(spark, tmp_path, source()).records
    assert {r.partition for r in records.select("partition").distinct().collect()} == {0, 1, 2, 3}
    same = F.pmod(F.xxhash64("key.id"), F.lit(4)).cast("int")
    assert records.where(F.col("partition") != same).count() == 0
    renamed = partition_of(F.struct(F.col("key.id").alias("other")), 4)
    assert records.where(F.col("partition") != renamed).count() == 0


def test_order_does_not_depend_on_how_files_are_split(spark: SparkSession, tmp_path: Path) -> None:
    expected = []
    for f in range(3):
        lines = [(f"f{f}", f * 1000 + i, i) for i in range(300 if f == 1 else 30)]
        (tmp_path / f"{f}.csv").write_text("id,n,at\n" + "".join(f"{a},{b},{c}\n" for a, b, c in lines))
        expected += lines
    before = spark.conf.get("spark.sql.files.maxPartitionBytes") or "128m"
    try:
        for size in ("128m", "1000", "333", "128m"):
            spark.conf.set("spark.sql.files.maxPartitionBytes", size)
            assert rows(load(spark, tmp_path, source())) == expected
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)


@pytest.mark.parametrize(
    ("zone", "looked_up"), [("America/New_York", False), (expr("tz", "STRING"), True)], ids=["one", "of each row"]
)
def test_a_zone_for_all_rows_is_looked_up_once(
    spark: SparkSession, tmp_path: Path, zone: str | Expr, looked_up: bool
) -> None:
    (tmp_path / "1.csv").write_text("id,n,at,tz\na,1,2013-01-01 00:00:00,UTC\n")
    schema = {**SCHEMA, "at": "TIMESTAMP", "tz": "STRING"}
    load(spark, tmp_path, source(schema=schema, time_zone=zone)).parsed.createOrReplaceTempView("zoned")
    plan = spark.sql("EXPLAIN SELECT * FROM zoned").collect()[0].plan
    assert ("2000-01-01 00:00:00 " in plan) == looked_up, "the probe of `is_zone`"
