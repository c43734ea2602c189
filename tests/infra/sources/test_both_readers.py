"""This process and the engine read the same rows, and the same dead letters, of every odd file.

| what is odd | the files |
|---|---|
| ends of lines | LF, CRLF, CR, all three, none at the end; blank lines and lines of blanks |
| marks, encodings | one byte order mark and two, Latin-1, UTF-16, NUL, U+FFFD, cut sequences, a picture |
| quotes | escaped, stray, unclosed, over lines, in the header, ``"x"y``, blanks around |
| fields | too many, too few, ten megabytes, the null text, headers in another order, with a column twice, without one |
| files | nothing, a header alone, gzip of two members, cut, damaged, none; archives that are empty, damaged, half bad |
| JSON | absent fields, digits, two objects, arrays, a mark of our own, blanks |

``line`` is the one column that may differ: this process always knows it, the engine only of files that it walks.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rivermeet.infra.sources.files.discovery import discover
from rivermeet.infra.sources.files.reading import read, read_all
from rivermeet.infra.sources.row_to_record import SourceFrames
from rivermeet.pipelines import Expr, Files, Source, limits

pytestmark = pytest.mark.slow
SCHEMA = {"id": "STRING", "n": "INT", "at": "BIGINT"}
HEAD = b"id,n,at\n"


def _zip(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return out.getvalue()


_MANY = HEAD + b"".join(b"z%d,%d,1\n" % (i, i * i % 7919) for i in range(30_000))
_PACKED = gzip.compress(_MANY)
_LINES = {
    "plain": b"a,1,10\nb,2,20\n",
    "none at the end": b"a,1,10\nb,2,20",
    "blank": b"\n   \na,1,10\n\t\n\nb,2,20\n\n",
    "quoted": b'"a,1",1,10\n"say ""x""",2,20\n"",3,30\n"NA",4,40\n',
    "stray": b'5" x,1,1\na"b"c,2,2\n "q",3,3\nx,"4",4\n"e"x,5,5\n"f" ,6,6\n"g""h"i,7,7\n',
    "unclosed": b'a,1,10\n"stray,3,30\nc,4,40\nd,5,"50\n',
    "over lines": b'"a\nz,9,90\nb, ""q""",1,10\n5" x,2,20\n"c\r\nd",3,30\n"e\rf",4,40\n"g\n\n\nh",5,50\n',
    "over lines, malformed": b'"a\nb"c,1,10\n"d\ne",2\n"f\ng",x,30\n',
    "a quote within a thousand lines": b'"' + b"x\n" * 900 + b'",1,10\ny,2,20\n',
    "a quote beyond a thousand lines": b'"' + b"x,1,1\n" * 1100 + b'",1,10\ny,2,20\n',
    "widths": b"a,1\nb,2,20,\nc,3,30,4\n,\n,,\nd,4,40\n",
    "types": b"a,x,10\nb,1.5,10\nc,2.0,10\nd,99999999999,10\n,5,50\nf,6,\ng,7,x\n",
    "nulls": b"a,NA,1\nNA,1,2\nb,,3\n",
    "blanks": b" a , 1 ,10\nb,2 , 20\n\xc2\xa0,3,30\n",
    "not UTF-8": b"\xff,1,10\n\xc4,2,20\nb,3,30\n\xe2\x82,4,40\n\xf0\x9f\x98,5,50\n",
    "U+FFFD": "\ufffd,1,10\na,2,20\n".encode(),
    "not UTF-8, quoted": b'"\xff",1,10\n"\xff"x,2,20\n"a\n\xff",3,30\nb,4,40\n',
    "other characters": "ä,1,10\n😀,2,20\n\u2028,3,30\na\x0bb\x0cc\x85d,4,40\n\ufeff,5,50\n".encode(),
    "NUL": b"a\0b,1,10\n\0,2,20\nc,3,30\n",
    "the header again": b"id,n,at\na,1,10\nid,n,at\n",
    "a field that is long": b"x" * 200_000 + b',1,1\n"' + b"y," * 100_000 + b'",2,2\n',
}
CSV: Mapping[str, bytes] = {
    **{f"{name}.csv": HEAD + lines for name, lines in _LINES.items()},
    **{f"{name}, CRLF.csv": (HEAD + lines).replace(b"\n", b"\r\n") for name, lines in _LINES.items()},
    **{f"{name}.csv.gz": gzip.compress(HEAD + lines) for name, lines in _LINES.items()},
    "all.zip": _zip(**{f"{at:02d}__csv": HEAD + lines for at, lines in enumerate(_LINES.values())}),
    "CR.csv": (HEAD + _LINES["plain"]).replace(b"\n", b"\r"),
    "ends.csv": b"id,n,at\ra,1,10\r\nb,2,20\n\rc,3,30\n\r\n",
    "BOM.csv": b"\xef\xbb\xbf\r\n" + HEAD + b"a,1,10\n",
    "BOM twice.csv": b"\xef\xbb\xbf" * 2 + HEAD + b"a,1,10\n",
    "BOM.csv.gz": gzip.compress(b"\xef\xbb\xbf" + HEAD + b"a,1,10\n"),
    "UTF-16.csv": (HEAD + b"x,1,10\n").decode().encode("utf-16"),
    "UTF-16 LE.csv": (HEAD + b"x,1,10\n").decode().encode("utf-16-le"),
    "picture.csv": bytes(range(256)) * 4,
    "Latin-1 header.csv": "id,n,at,größe\na,1,10,3\n".encode("latin-1"),
    "order.csv": b"at,more,id,n\n10,x,a,1\n20,,b,2\n",
    "quoted header.csv": b'"id",n,"at","a ""b"", c"\na,1,10,x\n',
    "header over lines.csv": b'id,n,"at\n"\na,1,10\n',
    "header over lines, sound.csv": b'id,n,at,"more\nof it"\na,1,10,x\n',
    "unclosed header.csv": b'id,n,at,"more\na,1,10,x\n',
    "renamed.csv": b"id,amount,at\nx,1,10\n",
    "twice.csv": b"id,n,n,at\nx,1,1,10\n",
    "nothing.csv": b"",
    "blank.csv": b"\n \n\n",
    "header.csv": HEAD,
    "header, no end.csv": HEAD.strip(),
    "nothing.csv.gz": gzip.compress(b""),
    "0 bytes.csv.gz": b"",
    "two members.csv.gz": gzip.compress(HEAD + b"a,1,10\nb") + gzip.compress(b",2,20\n"),
    "many.csv": _MANY,
    "cut.csv.gz": _PACKED[: len(_PACKED) // 2],
    "cut at its checksum.csv.gz": _PACKED[:-4],
    "damaged.csv.gz": _PACKED[:20_000] + b"\0" * 5_000 + _PACKED[25_000:],
    "cut, quoted.csv.gz": gzip.compress(HEAD + b'"a\nb",1,10\n' + _MANY[8:])[:-200],
    "no.csv.gz": HEAD + b"a,1,10\n",
    "no.zip": b"PK nonsense",
    "empty.zip": _zip(),
    "others.zip": _zip(read__md=b"x", __hidden__csv=HEAD),
    "members.zip": _zip(b__csv=b"at,id,n\n20,b,2\n", a__csv=HEAD + b"a,1,10\n", r__md=b"x", c__csv=b""),
    "half.zip": _zip(sound__csv=HEAD + b"a,1,10\n", wrong__csv=b"id,at\nx,1\n"),
    "damaged.zip": (whole := _zip(a__csv=_MANY))[:2_000] + bytes(500) + whole[2_500:],
    "colon 12:30.csv": HEAD + b"a,1,10\n",
    " blanks .csv": HEAD + b"a,1,10\n",
    "upper.CSV.GZ": gzip.compress(HEAD + b"a,1,10\n"),
}
_OBJECTS = [
    b'{"id":"a","n":1,"at":10,"more":{}}',
    b'{"at":"20","n":"2","id":"b"}',
    b'  {"id":"c","at":30}  ',
    b'{"id":"d","n":1.5,"at":30}',
    b'{"id":"e"',
    b'{"id":"f","at":1}{"id":"g","at":2}',
    b"[1]",
    b"null",
    b"",
    b"  \t",
    b'{"id":"x","n":NaN,"at":1}',
    b'{"id":"\xff","at":1}',
    b'{"id":"\\ufdd0","at":1}',
    '{"id":"ä \u2028 \x7f","n":123456789.0,"at":1}'.encode(),
    b'{"id":"say \\"x\\"","at":1}',
]
JSON: Mapping[str, bytes] = {
    "a.json": b"\n".join(_OBJECTS),
    "b.json": b"\xef\xbb\xbf" + b"\r\n".join(_OBJECTS) + b"\r\n",
    "c.json.gz": gzip.compress(b"\r".join(_OBJECTS)),
    "nothing.json": b"",
    "utf16.json": (_OBJECTS[0] * 2).decode().encode("utf-16"),
    "cut.json.gz": _PACKED[:9_000],
    "no.json.gz": _OBJECTS[0],
    "d.zip": b"PK",
}


def _loaded(spark: SparkSession, root: Path, source: Source, landing: Path | None) -> list[tuple[Any, ...]]:
    """All that is known of each row but its line."""
    files = discover(source.files, str(root), lambda: spark)
    attempts = iter(range(100))

    def kept(damaged: Mapping[str, str]) -> SourceFrames:
        folder = None if landing is None else landing / str(next(attempts))
        if folder is not None:
            folder.mkdir(parents=True)
        return SourceFrames(read(spark, source, 4, files, damaged, landing=folder).parsed.persist())

    found = read_all(kept, {file.path for file in files})[0]
    rows = found.parsed.orderBy("sequence.file_rank", "sequence.block", "sequence.row").collect()
    letters = {(row.file, row.position, row.text) for row in found.dead.collect()}
    assert sum(row.reason is not None for row in rows) == len(letters)
    shown = [(Path(row.file).name, *row[1:4], row.text, row.header, row.reason, row.partition) for row in rows]
    if landing is not None and limits.DRIVER_FILES_BYTES > 1 << 20:
        assert all(row.line or not row.text for row in rows), "this process knows every line"
    found.parsed.unpersist()
    return [(*row[:1], row[1] and tuple(row[1]), row[2] and tuple(row[2]), *row[3:]) for row in shown]


def _source(format: Any) -> Source:
    reads = Files("*", format, SCHEMA, "NA" if format == "csv" else None)
    return Source(reads, {"id": Expr("id", "STRING")}, {"n": Expr("n", "INT")}, "at", not_before=None)


@pytest.mark.parametrize(("format", "files"), [("csv", CSV), ("json", JSON)], ids=["csv", "json"])
def test_the_same_rows_and_letters(
    spark: SparkSession, tmp_path: Path, format: str, files: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    for name, content in files.items():
        (root / name).write_bytes(content)
    engine = _loaded(spark, root, _source(format), None)
    driver = _loaded(spark, root, _source(format), tmp_path / "landing")
    assert {row[0] for row in engine} >= {name for name in files if "plain" in name or name == "a.json"}
    of = {name: [[row for row in rows if row[0] == name] for rows in (driver, engine)] for name in files}
    assert {name: rows for name, rows in of.items() if rows[0] != rows[1]} == {}
    # Beyond the bound, in the midst of a file too, the engine reads in the same epoch what this process does not.
    monkeypatch.setattr(limits, "DRIVER_FILES_BYTES", sum(map(len, files.values())) // 3)
    assert _loaded(spark, root, _source(format), tmp_path / "a third") == engine
