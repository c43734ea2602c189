"""Bad input: a dead letter with its reason, and nothing else lost."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rivermeet.infra.delta.io import read as read_table
from rivermeet.infra.engine.session import new_session
from rivermeet.infra.sources.files.discovery import discover
from rivermeet.infra.sources.files.reading import read, read_all
from rivermeet.infra.sources.row_to_record import SourceFrames
from rivermeet.infra.sources.source_step import TooManyBadRowsError
from rivermeet.pipelines import DeclarationError, Files, JoinWindow, Pipeline, Source, limits
from tests.infra.sources.feeding import Fed, fed
from tests.reliability import survived
from tests.world import World

pytestmark = pytest.mark.slow

SCHEMA = {"id": "STRING", "n": "INT", "at": "BIGINT"}
CSV = b"id,n,at\na,1,10\n"
DAY = 86_400_000
DEAD = "a dead letter with its reason, all else read"


def declared(format: Any = "csv", schema: Mapping[str, str] | None = None, **options: Any) -> Source:
    """A source of the default options, all columns but ``id`` being its value."""
    files = Files("*", format, schema or SCHEMA)
    given: dict[str, Any] = {"key": ["id"], "timestamp": "at"} | options
    source = Pipeline("p").stream("s", files, **given).source
    assert source is not None
    return source


def load(spark: SparkSession, root: Path, source: Source) -> SourceFrames:
    files = discover(source.files, str(root), lambda: spark)

    def kept(damaged: Mapping[str, str]) -> SourceFrames:
        landing = Path(mkdtemp(prefix="landing", dir=root.parent))
        return SourceFrames(read(spark, source, 4, files, damaged, landing=landing).parsed.persist())

    return read_all(kept, {f.path for f in files})[0]


def ids(frames: SourceFrames) -> list[str]:
    return [row.id for row in frames.records.orderBy("sequence").select("key.id").collect()]


def dead(frames: SourceFrames) -> dict[str, str]:
    """Text of each dead letter, or the name of a file that is dead as such, to the reason."""
    rows = frames.dead.collect()
    assert all((row.position == 0) == (row.text is None) for row in rows)
    found = {row.text or Path(row.file).name: row.reason for row in rows}
    assert len(found) == len(rows), "a file is one dead letter"
    return found


def write(root: Path, **files: bytes) -> None:
    for name, content in files.items():
        (root / name.replace("__", ".")).write_bytes(content)


def holds(found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """The same keys, and every reason holds what is expected of it."""
    assert set(found) == set(expected)
    assert not {name: found[name] for name, part in expected.items() if part not in found[name]}
    survived("bad input: a file that cannot be read, a line that is no text", DEAD, len(expected))


def test_each_csv_file_that_cannot_be_read_is_one_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    whole = gzip.compress(b"id,n,at\n" + b"".join(b"z%d,%d,1\n" % (i, i * i * 7919) for i in range(20_000)))
    write(
        tmp_path,
        a__csv=CSV,
        b__csv=b"",
        c__csv=b"id,n,at\n",
        latin1__csv="id,n,at\nb,1,10\nÄ,2,10\nc,3,10\n".encode("latin-1"),
        utf16__csv="id,n,at\nx,1,10\n".encode("utf-16"),
        utf16le__csv="id,n,at\nx,1,10\n".encode("utf-16-le"),
        cut__csv__gz=whole[: len(whole) // 2],
        plain__csv__gz=CSV,
        renamed__csv=b"id,amount,at\nx,1,10\nx,2,10\n",
        picture__csv=bytes(range(256)) * 4,
        nonsense__zip=b"PK nonsense",
        z__csv=b"id,n,at\nd,4,10\n",
    )
    with zipfile.ZipFile(tmp_path / "half.zip", "w") as archive:
        archive.writestr("sound.csv", CSV.decode())
        archive.writestr("wrong.csv", "id,at\nx,1\n")
    frames = load(spark, tmp_path, declared())
    assert ids(frames) == ["a", "b", "c", "d"]
    holds(
        dead(frames),
        {
            "\ufffd,2,10": "the line is not UTF-8 text",
            "utf16.csv": "the file is not UTF-8 text; save it as UTF-8",
            "utf16le.csv": "the file is not UTF-8 text; save it as UTF-8",
            "cut.csv.gz": "the file cannot be read: it is no whole gzip file",
            "plain.csv.gz": "the file cannot be read: it is no whole gzip file",
            "renamed.csv": "the file has no column 'n' (it has id, amount, at)",
            "picture.csv": "the file is not UTF-8 text",
            "nonsense.zip": "the file cannot be read: File is not a zip file",
            "half.zip": "wrong.csv: the file has no column 'n' (it has id, at)",
        },
    )


def test_a_colon_is_dead_in_a_name_and_harmless_in_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "of 12:00"
    folder.mkdir()
    write(folder, b__csv=CSV, **{"12:30__csv": CSV})
    frames = load(spark, folder, declared())
    assert ids(frames) == ["a"]
    holds(dead(frames), {"12:30.csv": "the file has a colon in its name, which Hadoop cannot open; deliver it under"})


def test_each_json_file_that_cannot_be_read_is_one_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    whole = gzip.compress(os.urandom(20_000).hex().encode())
    write(
        tmp_path,
        a__json=b'{"id":"a","at":1}\n{"id":"x","n":NaN,"at":1}\n\xff\n',
        b__json=b"",
        utf16__json='{"id":"x","at":1}\n'.encode("utf-16") * 3,
        cut__json__gz=whole[:9_000],
        c__zip=b"PK",
        d__json=b'{"id":"b","at":1}',
    )
    frames = load(spark, tmp_path, declared("json"))
    assert ids(frames) == ["a", "b"]
    holds(
        dead(frames),
        {
            '{"id":"x","n":NaN,"at":1}': "column 'n': ",
            "\ufffd": "the line is not UTF-8 text",
            "utf16.json": "the file is not UTF-8 text; save it as UTF-8",
            "cut.json.gz": "the file cannot be read: it is no whole gzip file",
            "c.zip": "zip is read for format csv",
        },
    )


def test_each_parquet_file_that_cannot_be_read_is_one_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    def parquet(name: str, **columns: Any) -> bytes:
        pq.write_table(pa.table(columns), tmp_path / name)
        return (tmp_path / name).read_bytes()

    sound = parquet("a.parquet", id=["a"], n=[1], at=[1])
    parquet("none.parquet", id=pa.array([], pa.string()), n=pa.array([], pa.int32()), at=pa.array([], pa.int64()))
    parquet("nested.parquet", id=["x"], n=[[1]], at=[1])
    parquet("renamed.parquet", id=["x"], amount=[1], at=[1])
    many = bytearray(parquet("damaged.parquet", id=[str(i) for i in range(9_000)], n=[1] * 9_000, at=[1] * 9_000))
    many[100:5_000] = os.urandom(4_900)
    write(tmp_path, damaged__parquet=bytes(many), cut__parquet=sound[:-20], empty__parquet=b"")
    frames = load(spark, tmp_path, declared("parquet"))
    assert ids(frames) == ["a"]
    holds(
        dead(frames),
        {
            "nested.parquet": "the file's columns cannot be read as declared: ",
            "renamed.parquet": "the file has no column 'n' (it has id, amount, at)",
            "damaged.parquet": "the file cannot be read: ",
            "cut.parquet": "the file is no Parquet file that can be read: ",
            "empty.parquet": "the file is no Parquet file that can be read: ",
        },
    )


NUMBERS = {"id": "STRING", "x": "DOUBLE", "f": "FLOAT", "b": "TINYINT", "d": "DECIMAL(5,2)", "at": "TIMESTAMP"}


def test_numbers_and_times_that_are_none(spark: SparkSession, tmp_path: Path) -> None:
    lines = {
        "a,1e308,1e38,127,999.99,2020-01-01": "",
        "b,NaN,-Infinity,,,2020-01-01": "",
        "c,1e400,1,1,1,2020-01-01": "column 'x': '1e400' is not DOUBLE",
        "d,-1e400,1,1,1,2020-01-01": "column 'x': '-1e400' is not DOUBLE",
        "e,1,1e39,1,1,2020-01-01": "column 'f': '1e39' is not FLOAT",
        "f,1,1,128,1,2020-01-01": "column 'b': '128' is not TINYINT",
        "g,1,1,1,1000,2020-01-01": "column 'd': '1000' is not DECIMAL(5,2)",
        "h,1,1,NaN,1,2020-01-01": "column 'b': 'NaN' is not TINYINT",
        "i,1,1,1,Infinity,2020-01-01": "column 'd': 'Infinity' is not DECIMAL(5,2)",
        "j,1,1,1,1,2020-13-01": "column 'at': '2020-13-01' is not TIMESTAMP",
        "k,1,1,1,1,": "no event time: 'at' gave null",
        ",1,1,1,1,2020-01-01": "key column 'id' is null",
        "l,1,1,1,1,+294247-01-10 04:00:54": "value column 'at' has a time that is beyond all timestamps",
    }
    (tmp_path / "1.csv").write_text("id,x,f,b,d,at\n" + "".join(f"{line}\n" for line in lines))
    frames = load(spark, tmp_path, declared(schema=NUMBERS, time_zone="America/New_York"))
    assert ids(frames) == ["a", "b"]
    assert dead(frames) == {line: reason for line, reason in lines.items() if reason}
    survived("bad input: a wrong type, a null key, a number or a time that is none", DEAD, len(dead(frames)))


def test_a_field_of_ten_megabytes(spark: SparkSession, tmp_path: Path) -> None:
    huge = "x," * 5_000_000
    (tmp_path / "1.csv").write_text(f'id,n,at\n"{huge}",1,1\n{huge}\nb,2,1\n,3,1\n')
    frames = load(spark, tmp_path, declared())
    lengths = frames.records.orderBy("sequence").select(F.char_length("key.id").alias("n")).collect()
    assert [row.n for row in lengths] == [len(huge), 1]
    assert dead(frames) == {
        huge[
            : limits.LETTER_WIDTH
        ]: "the line does not have the 3 fields of the header (its text is cut to 10,000 characters)",
        ",3,1": "key column 'id' is null",
    }
    survived("bad input: a field of ten megabytes", "read whole")


def test_times_out_of_bounds_are_dead(spark: SparkSession, tmp_path: Path) -> None:
    modified = datetime(2024, 5, 1, tzinfo=UTC)
    for name, days in (("a", 0), ("b", 100)):
        path = tmp_path / f"{name}.csv"
        times = {
            "old": -1,
            "first": 0,
            "then": 1_714_521_600_000,
            "ahead": 1_714_521_600_000 + DAY + 1,
            "end": 2**63 - 1,
        }
        path.write_text("id,n,at\n" + "".join(f"{name} {what},1,{at}\n" for what, at in times.items()))
        os.utime(path, (0, modified.timestamp() + days * 86_400))
    plain, bounded = load(spark, tmp_path, declared()), load(spark, tmp_path, declared(max_ahead="1d", not_before=None))
    old = "event time 1969-12-31 23:59:59.999 UTC is before not_before=1970-01-01"
    end = "no event time: 9223372036854775807 is beyond all timestamps"
    late = " is more than max_ahead=1d after its file was modified, 2024-05-01 00:00:00 UTC"
    ahead = f"event time 2024-05-02 00:00:00.001 UTC{late}"
    assert {r.split(",")[0]: why for r, why in dead(plain).items()} == {
        "a old": old, "b old": old, "a end": end, "b end": end,
    }  # fmt: skip
    assert {r.split(",")[0]: why for r, why in dead(bounded).items()} == {"a ahead": ahead, "a end": end, "b end": end}
    until = load(spark, tmp_path, declared(not_before="2024-05-01", not_after="2024-05-01T00:00:00+00:00"))
    assert ids(until) == ["a then", "b then"]
    assert dead(until)["a ahead,1,1714608000001"] == (
        "event time 2024-05-02 00:00:00.001 UTC is after not_after=2024-05-01T00:00:00+00:00"
    )
    survived("bad input: a time before 1970 or in the far future", DEAD, sum(map(len, map(dead, (plain, bounded)))))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"not_before": "2020-01-02", "not_after": "2020-01-01"}, "no record could pass"),
        ({"not_after": "tomorrow"}, "not_after is 'tomorrow', no ISO date"),
        ({"not_before": 5}, "not_before is 5, no ISO date"),
        ({"max_ahead": "soon"}, "max_ahead: 'soon' is not a duration"),
        ({"max_ahead": "-1d"}, "max_ahead is -86400000 ms; make it 0 or more"),
        ({"duplicate_files": "skip"}, "duplicate_files 'skip' is not one of dead_letter, read"),
    ],
)
def test_wrong_bounds_are_refused_when_declared(options: dict[str, Any], says: str) -> None:
    with pytest.raises(DeclarationError, match=f"^pipeline 'p', node 's': .*{says}[^\n]*$"):
        declared(**options)


def test_a_file_that_comes_twice_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    first, more = "id,n,at\na,1,10\nb,2,20\n", "id,n,at\nc,3,30\n"
    source = fed(spark, tmp_path)
    source.deliver(a=first, b=first, c="id,n,at\n", d="id,n,at\n", e="", f="")
    assert source.run().rows == 2
    (tmp_path / "data" / "a.csv").unlink()
    source.deliver(g=first, h=more, i=first.replace("a,1", "z,1"))
    result = source.run()
    assert [row["key"]["id"] for row in source.records()] == ["a", "b", "c", "z", "b"]
    reason = (
        f'the file has the same bytes as {tmp_path}/data/a.csv; declare duplicate_files="read" if it is meant twice'
    )
    letters = [(Path(row["file"]).name, row["line"], row["text"], row["reason"]) for row in source.letters()]
    assert letters == [("b.csv", None, None, reason), ("g.csv", None, None, reason)]
    assert result.sides == {"dead_letter": 1}, "and no share of bad rows was exceeded by it"
    assert source.run_or_none() is None
    survived("bad input: a file that comes twice", "read once, the copy a dead letter", len(letters))
    twice = fed(spark, tmp_path, name="twice", duplicate_files="read")
    assert twice.run().rows == 2 + 2 + 1 + 2, "b and g as if they were no copies; a is gone"


def test_files_that_cannot_be_read_are_no_share_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    source, strict = fed(spark, tmp_path), fed(spark, tmp_path, name="strict", max_bad_share=0)
    source.deliver(a="id,n\n", b="id,n,at\na,1,10\n")
    assert (source.run().rows, len(source.letters())) == (1, 1)
    with pytest.raises(TooManyBadRowsError, match="1 of 2 rows in 2 files are no records"):
        strict.run()
    source.deliver(c="id,n,at\nb,x,10\nc,1,1\n")
    with pytest.raises(TooManyBadRowsError, match=r"1 of 2 rows in 1 file .*max_bad_share=0\.01"):
        source.run()
    assert len(source.letters()) == 1


def test_an_epoch_with_too_many_bad_rows_names_the_first_and_keeps_all(spark: SparkSession, tmp_path: Path) -> None:
    source = fed(spark, tmp_path)
    bad = "".join(f"x{n},no,{n}\n" for n in range(7))
    source.deliver(a=f"id,n,at\na,1,10\n{bad}", b="id,n,at\nb,2\n")
    with pytest.raises(TooManyBadRowsError) as refused:
        source.run()
    message = str(refused.value)
    a, rejected = tmp_path / "data/a.csv", source.step.paths.rejected
    assert message.startswith("source 'p.s': 8 of 9 rows in 2 files are no records, more than max_bad_share=0.01;")
    assert f"The first: {a}, line 3: \"x0,no,0\" (column 'n': 'no' is not INT); {a}, line 4: \"x1,no,1\" (" in message
    assert '"x4,no,4"' in message and '"x5,no,5"' not in message and message.endswith(f"All are kept in {rejected}")

    def kept() -> list[tuple[Any, ...]]:
        rows = read_table(spark, rejected).orderBy("file", "position").collect()
        return [(row.epoch, Path(row.file).name, row.text) for row in rows]

    assert kept() == [(1, "a.csv", f"x{n},no,{n}") for n in range(7)] + [(1, "b.csv", "b,2")]
    assert source.letters() == [], "nothing of it is committed"
    # The next refusal takes its place.
    source.deliver(a="id,n,at\na,1,10\n", b="id,n,at\nb,2\n")
    with pytest.raises(TooManyBadRowsError, match=r"1 of 2 rows .* They are: .*b\.csv, line 2: \"b,2\" \("):
        source.run()
    assert kept() == [(2, "b.csv", "b,2")]


def test_a_plan_whose_file_changed_is_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    source = fed(spark, tmp_path)
    source.deliver(a="id,n,at\na,1,10\n", b="id,n,at\nb,1,10\n")
    planned = source.step.plan(None, None, 1)
    assert planned is not None
    source.runner.log.write("s", 1, 1, "plan", planned.model_dump_json())
    (tmp_path / "data" / "a.csv").unlink()
    source.deliver(b="id,n,at\nb,2,10\n")
    assert "changed or removed after it was planned" in (source.step.explain_skip(planned) or "")
    result = source.run()
    assert (result.plan.epoch, result.rows) == (2, 1)
    assert source.records()[0]["value"] == {"n": 2}
    survived("bad input: a file changed after it was planned", "planned again")


@pytest.mark.slow
@pytest.mark.parametrize("bound", [pytest.param(None, marks=pytest.mark.prove), "2100-01-01"])
def test_one_bad_clock_does_not_close_every_window(spark: SparkSession, tmp_path: Path, bound: str | None) -> None:
    pipeline = Pipeline("clocks")
    schema = {"id": "STRING", "v": "STRING", "at": "TIMESTAMP"}
    sides = {
        name: pipeline.stream(
            name, Files(f"{name}/*.csv", "csv", schema), partitions=1, key=["id"], value=["v"], timestamp="at",
            not_after=bound, max_bad_share=0.5,
        )
        for name in ("left", "right")
    }  # fmt: skip
    window = JoinWindow(before="1h", after="1h", grace="1h")
    joined = sides["left"].join(sides["right"], "joined", window=window, select={"l": "left.v", "r": "right.v"})
    world = World(tmp_path, spark, new_session(spark), {})
    sources = {name: Fed(world, node, tmp_path / name) for name, node in sides.items()}
    sources["left"].deliver(a="id,v,at\nk,bad,9999-12-31\nk,l1,2024-05-01 10:00\n")
    sources["right"].deliver(a="id,v,at\nk,r1,2024-05-01 10:00\n")
    for step in ("first", "second"):
        for source in sources.values():
            source.run()
        assert world.run(joined) is not None, step
        sources["left"].deliver(b="id,v,at\nk,l2,2024-05-01 10:30\n")
        sources["right"].deliver(b="id,v,at\nk,r2,2024-05-01 10:45\n")
    pairs = {(row["value"]["l"], row["value"]["r"]) for row in world.rows(joined)}
    letters = sources["left"].letters()
    if bound is None:
        assert pairs == set(), "stream time is in the year 9999, and all else is late"
        assert letters == []
        assert len(world.rows(joined, "late")) >= 2
        return
    assert pairs == {("l1", "r1"), ("l1", "r2"), ("l2", "r1"), ("l2", "r2")}
    assert world.rows(joined, "late") == []
    assert [row["reason"] for row in letters] == ["event time 9999-12-31 00:00:00 UTC is after not_after=2100-01-01"]
    survived("bad input: one clock in the year 9999, with a bound", "no window closed by it, no record late")
